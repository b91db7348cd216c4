//! Figures in the manner of the paper: one panel per model, one step curve per heuristic.
//!
//! Idea: a figure is a value, drawn twice, as svg and as png, by the same code. What no budget can avoid is shaded:
//! below the constants black, below the largest single call grey. A curve ends at its smallest passing budget; the
//! mark at its end says what happens below: a cross for out of memory, a triangle for thrashing.
//! Not here: numbers (see `figures`), files (see `write`).

use crate::cell::Cell;
use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::path::Path;
use std::sync::Once;

/// What the vertical axis shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Time over the baseline's, from 0.9 to 2.
    Overhead,
    /// Metadata accesses, logarithmic.
    Accesses,
}

/// Some panels under one title.
#[derive(Debug)]
pub struct Figure {
    /// Stands above all panels.
    pub title: String,
    /// The vertical axis of all panels.
    pub scale: Scale,
    /// One per model.
    pub panels: Vec<Panel>,
}

/// The curves of one model.
#[derive(Debug)]
pub struct Panel {
    /// Stands above the panel.
    pub model: String,
    /// Constants over peak: no budget below can hold the weights.
    pub impossible: f64,
    /// Largest call over peak.
    pub bottleneck: f64,
    /// In the order of the legend.
    pub curves: Vec<Curve>,
}

/// One heuristic on one model.
#[derive(Debug)]
pub struct Curve {
    label: String,
    /// Ratios at which all trials passed, ascending, with overheads and accesses.
    points: Vec<Point>,
    /// The status of a failing trial at the largest ratio below the smallest passing one.
    end: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    ratio: f64,
    /// Smallest, mean and largest over the trials.
    overhead: [f64; 3],
    accesses: f64,
}

impl Curve {
    /// Gathers the cells of one heuristic, all trials of a ratio into one point.
    pub fn new(label: String, cells: &[&Cell], ratios: &[f64]) -> Self {
        let mut ratios = ratios.to_vec();
        ratios.sort_by(f64::total_cmp);
        ratios.dedup();
        let trials = |ratio: f64| cells.iter().filter(move |cell| cell.ratio == ratio);
        let passes = |&ratio: &f64| trials(ratio).all(|cell| cell.passed());
        let points: Vec<Point> =
            ratios.iter().copied().filter(passes).filter_map(|r| point(r, trials(r))).collect();
        let first = points.first().map_or(f64::INFINITY, |p| p.ratio);
        let below = ratios.iter().rev().find(|&&ratio| ratio < first);
        let end = below.and_then(|&r| trials(r).find(|cell| !cell.passed())).map(|cell| cell.status);
        Self { label, points, end }
    }
}

fn point<'a>(ratio: f64, trials: impl Iterator<Item = &'a &'a Cell>) -> Option<Point> {
    let (mut count, mut sum, mut accesses) = (0.0, 0.0, 0.0);
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    for cell in trials {
        let overhead = cell.overhead?;
        (count, sum) = (count + 1.0, sum + overhead);
        (min, max) = (min.min(overhead), max.max(overhead));
        accesses += cell.accesses.unwrap_or(0) as f64;
    }
    (count > 0.0).then(|| Point { ratio, overhead: [min, sum / count, max], accesses: accesses / count })
}

/// Distinguishable in print and for most colour-blind readers (Okabe and Ito 2008, and grey).
const COLORS: [RGBColor; 7] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(110, 110, 110),
];

const FONT: &str = "sans-serif";
const PANEL: (u32, u32) = (460, 360);
const TITLE: u32 = 40;
const COLUMNS: usize = 3;

impl Figure {
    /// The figure as svg text.
    ///
    /// # Errors
    /// If drawing fails.
    pub fn svg(&self) -> Result<String> {
        let mut text = String::new();
        self.draw(SVGBackend::with_string(&mut text, self.size()))?;
        Ok(text)
    }

    /// Writes the figure to a path that ends in `.png`.
    ///
    /// # Errors
    /// If drawing or encoding fails.
    pub fn png(&self, path: &Path) -> Result<()> {
        self.draw(BitMapBackend::new(path, self.size()))
    }

    fn columns(&self) -> usize {
        self.panels.len().clamp(1, COLUMNS)
    }

    fn rows(&self) -> usize {
        self.panels.len().div_ceil(COLUMNS).max(1)
    }

    fn size(&self) -> (u32, u32) {
        (PANEL.0 * self.columns() as u32, PANEL.1 * self.rows() as u32 + TITLE)
    }

    fn draw<B: DrawingBackend>(&self, backend: B) -> Result<()> {
        register_fonts();
        self.draw_all(backend).map_err(|e| anyhow!("drawing failed: {e}"))
    }

    fn draw_all<B: DrawingBackend>(&self, backend: B) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let root = backend.into_drawing_area();
        root.fill(&WHITE)?;
        let root = root.titled(&self.title, (FONT, 22))?;
        for (panel, area) in self.panels.iter().zip(root.split_evenly((self.rows(), self.columns()))) {
            match self.scale {
                Scale::Overhead => panel.draw(&area, 0.9..2.0, "overhead", |p| p.overhead)?,
                Scale::Accesses => {
                    let values = || panel.curves.iter().flat_map(|c| &c.points).map(|p| p.accesses.max(1.0));
                    let (low, high) = (values().fold(1e3, f64::min), values().fold(1e3, f64::max));
                    let range = (low / 2.0..high * 20.0).log_scale();
                    panel.draw(&area, range, "accesses", |p| [p.accesses.max(1.0); 3])?;
                }
            }
        }
        root.present()
    }
}

type Area<B> = DrawingArea<B, plotters::coord::Shift>;
type Kind<B> = DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>;

impl Panel {
    fn draw<B, Y>(
        &self,
        area: &Area<B>,
        y: Y,
        what: &str,
        value: fn(&Point) -> [f64; 3],
    ) -> Result<(), Kind<B>>
    where
        B: DrawingBackend,
        Y: plotters::coord::ranged1d::AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .caption(&self.model, (FONT, 18))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(58)
            .build_cartesian_2d(0.0..1.05, y)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc("budget / peak")
            .y_desc(what)
            .label_style((FONT, 13))
            .y_label_formatter(&|y| if *y < 100.0 { format!("{y:.1}") } else { format!("{y:.0e}") })
            .draw()?;
        let range: std::ops::Range<f64> = chart.y_range();
        let shade = |from: f64, to: f64, color: RGBAColor| {
            Rectangle::new([(from.min(1.05), range.start), (to.min(1.05), range.end)], color.filled())
        };
        chart.draw_series([
            shade(0.0, self.impossible, BLACK.mix(0.85)),
            shade(self.impossible, self.bottleneck.max(self.impossible), BLACK.mix(0.2)),
        ])?;
        for (curve, &color) in self.curves.iter().zip(COLORS.iter().cycle()) {
            // A band from the smallest to the largest trial, as one outline.
            let steps = |which: usize| steps(curve.points.iter().map(|p| (p.ratio, value(p)[which])));
            if curve.points.iter().any(|p| value(p)[0] < value(p)[2]) {
                let outline: Vec<_> = steps(0).into_iter().chain(steps(2).into_iter().rev()).collect();
                chart.draw_series([Polygon::new(outline, color.mix(0.2))])?;
            }
            let series = chart.draw_series(LineSeries::new(steps(1), color.stroke_width(2)))?;
            series
                .label(&curve.label)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
            let last = curve.points.first().map(|p| (p.ratio, value(p)[1])).filter(|p| p.1 <= range.end);
            match (last, curve.end) {
                (Some(at), Some("oom")) => {
                    chart.draw_series([Cross::new(at, 5, color.stroke_width(2))])?;
                }
                (Some(at), Some(_)) => {
                    chart.draw_series([TriangleMarker::new(at, 6, color.filled())])?;
                }
                _ => (),
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .label_font((FONT, 12))
            .draw()
    }
}

/// A budget buys what the next smaller tested budget buys, at least: the curve is level up to the next point.
fn steps(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut steps = Vec::new();
    for (ratio, value) in points {
        if let Some(&(_, level)) = steps.last() {
            steps.push((ratio, level));
        }
        steps.push((ratio, value));
    }
    steps
}

/// The font travels with the program: looking one up would need fontconfig and freetype on every machine.
fn register_fonts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // The only error is a font that cannot be parsed, and then drawing text will say so.
        let _ = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
    });
}
