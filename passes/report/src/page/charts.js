"use strict";
// What the charts of all pages have in common: they are drawn with uPlot, and #tip tells what lies under the cursor. Numbers are in #data.
const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");
const HEIGHT = 280, LEAST_WIDTH = 1e-4;
// Marks of an axis in bytes are powers of two.
const POWERS = Array.from({ length: 53 }, (_, power) => 2 ** power);

const bytes = size => {
  const unit = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]].find(([, one]) => size >= one);
  return unit ? parseFloat((size / unit[1]).toFixed(2)) + " " + unit[0] : size + " B";
};
const make = (tag, text) => { const one = document.createElement(tag); one.textContent = text; return one; };
const bytesAxis = label => ({ label, labelSize: 22, size: 78, incrs: POWERS, values: (_, marks) => marks.map(bytes), grid: { stroke: "#e4e4e4" } });
const numberAxis = label => ({ label, labelSize: 22, size: 36, grid: { stroke: "#e4e4e4" } });

// The run that goes on at a moment: the last one that begins before it.
function runAt(starts, moment) {
  let low = 0, high = starts.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= moment) low = middle; else high = middle - 1;
  }
  return low;
}

// Below the chart, or above it where there is no room, so that it hides nothing of what it explains.
function showTip(u, parts) {
  const box = u.root.getBoundingClientRect(), over = u.over.getBoundingClientRect();
  tip.replaceChildren(...parts);
  tip.style.display = "block";
  const below = box.bottom + tip.offsetHeight + 8 < innerHeight || box.top < tip.offsetHeight + 8;
  tip.style.left = Math.max(4, Math.min(over.left + u.cursor.left + 14, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = (below ? box.bottom + 4 : box.top - tip.offsetHeight - 4) + "px";
}

function draw(id, options, values) {
  const box = document.getElementById(id);
  const width = () => Math.max(box.clientWidth, 320);
  const plot = new uPlot({ width: width(), height: HEIGHT, legend: { show: false }, ...options }, values, box);
  addEventListener("resize", () => plot.setSize({ width: width(), height: HEIGHT }));
  return plot;
}

// A wheel zooms around the cursor, or moves sideways.
function zoomable(plot, length) {
  plot.over.addEventListener("wheel", event => {
    event.preventDefault();
    let { min, max } = plot.scales.x;
    const width = max - min, here = plot.posToVal(event.offsetX, "x");
    const by = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? 1 : event.deltaY < 0 ? 0.8 : 1.25;
    const wanted = Math.min(Math.max(width * by, length * LEAST_WIDTH), length);
    min = by === 1 ? min + Math.sign(event.deltaX) * width / 10 : here - (here - min) * wanted / width;
    min = Math.min(Math.max(min, 0), length - wanted);
    plot.setScale("x", { min, max: min + wanted });
  }, { passive: false });
}

// A broken line from side to side, with its word above the right end or below it.
function level(u, value, text) {
  const { left, top, width } = u.bbox, y = u.valToPos(value, "y", true), size = 12 * devicePixelRatio;
  u.ctx.save();
  u.ctx.strokeStyle = u.ctx.fillStyle = "#b00000";
  u.ctx.lineWidth = devicePixelRatio * 1.5;
  u.ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  u.ctx.beginPath(); u.ctx.moveTo(left, y); u.ctx.lineTo(left + width, y); u.ctx.stroke();
  u.ctx.font = size + "px system-ui, sans-serif";
  u.ctx.textAlign = "right";
  const place = [left + width - size / 2, y - top > size * 1.5 ? y - size / 2 : y + size * 1.2];
  u.ctx.lineWidth = size / 4; u.ctx.strokeStyle = "#ffffffd0"; u.ctx.setLineDash([]);
  u.ctx.strokeText(text, ...place); u.ctx.fillText(text, ...place);
  u.ctx.restore();
}
