// The figures of a page: drawn by plotly.js, and exported. They are sent in the light page's colours; on a dark page
// each colour is exchanged for its twin.
"use strict";

const darkScheme = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (darkScheme.matches ? "dark" : "light")) === "dark";
const readJson = (id) => JSON.parse(document.getElementById(id).textContent);

function inColours(value, twins) {
  if (typeof value === "string") return twins[value] ?? value;
  if (Array.isArray(value)) return value.map((item) => inColours(item, twins));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inColours(item, twins)]));
}

const narrow = 520; // px, of a figure

function scaled(value, factor) {
  if (Array.isArray(value)) return value.map((item) => scaled(item, factor));
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).map(([key, item]) => {
    const isFont = /font$/.test(key) && typeof item?.size === "number";
    return [key, isFont ? { ...item, size: item.size * factor } : scaled(item, factor)];
  });
  return Object.fromEntries(entries);
}

function fitted({ data, layout }, width) {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  if (width >= narrow) return { data: scaled(data, rem / 16), layout: scaled(layout, rem / 16) };
  const small = scaled({ data, layout }, 0.84);
  // no room for an inset
  const { xaxis2, yaxis2, ...bare } = small.layout;
  const shown = small.data.some((trace) => trace.xaxis === "x2") ? bare : small.layout;
  return {
    data: small.data
      .filter((trace) => trace.xaxis !== "x2")
      .map((trace) => (trace.type === "heatmap" ? { ...trace, showscale: false } : trace)),
    layout: {
      ...shown,
      shapes: (shown.shapes ?? []).filter((shape) => shape.name !== "inset"),
      margin: { ...layout.margin, l: 40, r: 6, b: 46 },
    },
  };
}

async function draw(plot) {
  const coloured = inColours(readJson(plot.dataset.figure), isDark() ? readJson("dark-twins") : {});
  const { data, layout } = fitted(coloured, plot.clientWidth);
  await Plotly.react(plot, data, layout, readJson("plot-config"));
  plot.dataset.drawn = isDark() ? "dark" : "light";
  performance.mark(`drawn:${plot.id}`);
}

// those in closed details have no width yet
const plots = (within = document) => [...within.querySelectorAll(".plot")].filter((plot) => !plot.closest("details:not([open])"));

// one after another: the first is on the screen before the next is begun
async function drawAll(chosen = plots()) {
  for (const plot of chosen) {
    await draw(plot);
    await new Promise(requestAnimationFrame);
  }
}

async function exportFigure(button) {
  const plot = document.getElementById(button.dataset.plot);
  const { data, layout } = readJson(plot.dataset.figure); // on paper, always the light colours
  const onWhite = { ...layout, paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff" };
  await Plotly.downloadImage(
    { data, layout: onWhite, config: readJson("plot-config") },
    { format: button.dataset.export, filename: plot.dataset.name, width: 960, height: 600, scale: 2 },
  );
}

async function copyLink(button) {
  const link = `${location.href.split("#")[0]}#${button.dataset.copy}`;
  try {
    await navigator.clipboard.writeText(link);
  } catch { // only pages over TLS, or of this machine, may write it
    prompt("The link to this figure", link);
    return;
  }
  const label = button.lastChild;
  const word = label.textContent;
  label.textContent = "Copied";
  setTimeout(() => { label.textContent = word; }, 1500);
}
