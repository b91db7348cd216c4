//! Figures: panels of curves, drawn twice, as svg and as png, by the same code.
//!
//! Curves differ in colour and in the shape of their marks, so that they can be told apart in grey. An axis spans what is drawn.
//! Not here: what a figure shows.

use std::ops::Range;
use std::path::Path;
use std::sync::Once;

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::combinators::WithKeyPoints;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use rk_vocabulary::write_whole;

pub struct Figure {
    pub title: String,
    pub columns: usize,
    /// Those without a point are left out.
    pub panels: Vec<Panel>,
}

pub struct Panel {
    pub title: String,
    pub across: Axis,
    pub up: Axis,
    /// In the order of the legend; those without points are left out.
    pub curves: Vec<Curve>,
    /// What others say, as a grey field.
    pub band: Option<Band>,
}

/// What an axis shows, with its unit.
pub struct Axis {
    label: String,
    is_logarithmic: bool,
}

pub struct Curve {
    pub label: String,
    pub points: Vec<(f64, f64)>,
}

pub struct Band {
    pub label: String,
    pub across: [f64; 2],
    pub up: [f64; 2],
}

impl Axis {
    pub fn linear(label: &str) -> Self {
        Self { label: label.into(), is_logarithmic: false }
    }

    pub fn logarithmic(label: &str) -> Self {
        Self { label: label.into(), is_logarithmic: true }
    }

    /// From the least to the most of these, with some room.
    fn range(&self, values: impl Iterator<Item = f64>) -> Range<f64> {
        let (low, high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
        match self.is_logarithmic {
            true => low.max(1e-4) / 1.3..high.max(2e-4) * 1.3,
            false => {
                let room = (0.05 * (high - low)).max(0.05 * high).max(0.01);
                (low - room).max(0.0)..high + room
            }
        }
    }
}

/// Numbers that a logarithmic axis shows: 1, 2 and 5 in each decade, or only 1 where there are many; none outside of it.
fn ticks(range: &Range<f64>) -> Vec<f64> {
    let decades = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
    let digits: &[f64] = if range.end / range.start > 1e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let all = decades.flat_map(|decade| digits.iter().map(move |digit| digit * 10f64.powi(decade)));
    all.filter(|tick| range.contains(tick)).collect()
}

/// A logarithmic axis with [`ticks`].
fn logarithmic(range: Range<f64>) -> WithKeyPoints<LogCoord<f64>> {
    let ticks = ticks(&range);
    range.log_scale().with_key_points(ticks)
}

/// Distinguishable in print and for most colour-blind readers (Okabe and Ito 2008, and grey).
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(180, 130, 0),
    RGBColor(86, 180, 233),
    RGBColor(110, 110, 110),
];
const FONT: &str = "sans-serif";
const PANEL: (u32, u32) = (560, 360);
const TITLE: u32 = 40;
/// Room for the legend of a panel, at its right.
const LEGEND: u32 = 170;

type Area<B> = DrawingArea<B, Shift>;
type Kind<B> = DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>;

impl Figure {
    /// Writes `stem.svg` and `stem.png`.
    ///
    /// # Errors
    /// If drawing or writing fails.
    pub fn write(&self, stem: &Path) -> Result<()> {
        register_fonts();
        let (rows, columns) = (self.rows() as u32, self.columns as u32);
        let size = (PANEL.0 * columns, PANEL.1 * rows + TITLE);
        let file = |end: &str| Path::new(&format!("{}.{end}", stem.display())).to_owned();
        if let Some(folder) = stem.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let mut svg = String::new();
        self.draw(SVGBackend::with_string(&mut svg, size)).map_err(|error| anyhow!("drawing: {error}"))?;
        write_whole(&file("svg"), svg.as_bytes())
            .with_context(|| format!("cannot write {}", file("svg").display()))?;
        let png = file("png");
        self.draw(BitMapBackend::new(&png, size))
            .map_err(|error| anyhow!("cannot write {}: {error}", png.display()))
    }

    fn drawn(&self) -> impl Iterator<Item = &Panel> {
        self.panels.iter().filter(|panel| panel.curves.iter().any(|curve| !curve.points.is_empty()))
    }

    fn rows(&self) -> usize {
        self.drawn().count().div_ceil(self.columns).max(1)
    }

    fn draw<B: DrawingBackend>(&self, backend: B) -> Result<(), Kind<B>> {
        let root = backend.into_drawing_area();
        root.fill(&WHITE)?;
        let root = root.titled(&self.title, (FONT, 22))?;
        for (panel, area) in self.drawn().zip(root.split_evenly((self.rows(), self.columns))) {
            panel.draw(&area)?;
        }
        root.present()
    }
}

impl Panel {
    fn draw<B: DrawingBackend>(&self, area: &Area<B>) -> Result<(), Kind<B>> {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let across = self.across.range(points().map(|point| point.0));
        let up = self.up.range(points().map(|point| point.1));
        match (self.across.is_logarithmic, self.up.is_logarithmic) {
            (true, true) => self.on(area, logarithmic(across), logarithmic(up)),
            (true, false) => self.on(area, logarithmic(across), up),
            (false, true) => self.on(area, across, logarithmic(up)),
            (false, false) => self.on(area, across, up),
        }
    }

    fn on<B, X, Y>(&self, area: &Area<B>, across: X, up: Y) -> Result<(), Kind<B>>
    where
        B: DrawingBackend,
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        // The legend stands beside the curves, not on them.
        let (area, legend) = area.split_horizontally(area.dim_in_pixel().0 - LEGEND);
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, (FONT, 16))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(across, up)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(&self.across.label)
            .y_desc(&self.up.label)
            .label_style((FONT, 12))
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value))
            .draw()?;
        let mut line = 0;
        let mut place = || {
            line += 1;
            (4, 30 + 18 * line)
        };
        if let Some(band) = &self.band {
            let [(left, right), (low, high)] = [band.across, band.up].map(|[low, high]| (low, high));
            let (xs, ys) = (chart.x_range(), chart.y_range());
            let inside = |value: f64, range: &Range<f64>| value.clamp(range.start, range.end);
            let corners = [(inside(left, &xs), inside(low, &ys)), (inside(right, &xs), inside(high, &ys))];
            chart.draw_series([Rectangle::new(corners, BLACK.mix(0.15).filled())])?;
            let (x, y) = place();
            legend.draw(&Rectangle::new([(x, y - 5), (x + 22, y + 5)], BLACK.mix(0.15).filled()))?;
            legend.draw(&Text::new(band.label.as_str(), (x + 28, y - 6), (FONT, 12)))?;
        }
        let drawn = self.curves.iter().filter(|curve| !curve.points.is_empty());
        for (index, curve) in drawn.enumerate() {
            let color = COLORS[index % COLORS.len()];
            chart.draw_series(LineSeries::new(curve.points.iter().copied(), color.stroke_width(2)))?;
            chart.draw_series(
                curve.points.iter().map(|&point| EmptyElement::at(point) + mark(index, color)),
            )?;
            let (x, y) = place();
            legend.draw(&PathElement::new([(x, y), (x + 22, y)], color.stroke_width(2)))?;
            legend.draw(&(EmptyElement::at((x + 11, y)) + mark(index, color)))?;
            legend.draw(&Text::new(curve.label.as_str(), (x + 28, y - 6), (FONT, 12)))?;
        }
        Ok(())
    }
}

/// The mark of a curve, as corners around a point: seven colours and four shapes make twenty-eight.
fn mark(index: usize, color: RGBColor) -> Polygon<(i32, i32)> {
    let corners = match index % 4 {
        0 => vec![(-4, -4), (4, -4), (4, 4), (-4, 4)],
        1 => vec![(0, -6), (5, 4), (-5, 4)],
        2 => vec![(0, -6), (6, 0), (0, 6), (-6, 0)],
        _ => vec![(0, 6), (5, -4), (-5, -4)],
    };
    Polygon::new(corners, color.filled())
}

/// A number for an axis, with the digits that it needs.
fn short(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The font travels with the program: looking one up would need fontconfig and freetype on every machine.
fn register_fonts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // The only error is a font that cannot be parsed, and then drawing text will say so.
        let _ = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
    });
}
