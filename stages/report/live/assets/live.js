// The page of aicplan serve: a stream of states becomes text, bars, charts and a
// graph. All text goes in as text nodes, never as HTML.
"use strict";
const $ = id => document.getElementById(id);
const svgNS = "http://www.w3.org/2000/svg";
function el(name, attrs, ...kids) {
  const e = document.createElement(name);
  for (const k in attrs || {}) if (attrs[k] != null) e.setAttribute(k, attrs[k]);
  for (const kid of kids) if (kid != null) e.append(kid);
  return e;
}
function svg(name, attrs, ...kids) {
  const e = document.createElementNS(svgNS, name);
  for (const k in attrs || {}) e.setAttribute(k, attrs[k]);
  for (const kid of kids) if (kid != null) e.append(kid);
  return e;
}
const count = n => n.toLocaleString("en-US").replace(/,/g, "\u202f");
function time(s) {
  if (s == null) return "";
  if (s < 60) return Math.round(s) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + Math.round(s % 60) + " s";
  return Math.floor(s / 3600) + " h " + Math.round(s % 3600 / 60) + " min";
}
const value = v => v == null ? "" : Math.abs(v) >= 100 ? v.toFixed(0) : Math.abs(v) >= 1 ? v.toFixed(2) : v.toPrecision(3);
const rate = r => r == null ? "" : r >= 1 ? r.toFixed(1) + "/s" : (60 * r).toFixed(1) + "/min";
const when = t => new Date(t).toLocaleString();

function totals(s) {
  const n = { done: 0, failed: 0, skipped: 0, total: 0 };
  for (const st of s.stages) if (st.total > 0) for (const k in n) n[k] += st[k];
  return n;
}

function word(s) {
  if (s.ended) return s.exit_code === 0 ? "done" : "ended with exit code " + s.exit_code;
  const silent = (Date.now() - new Date(s.seen)) / 1000;
  return silent > 100 ? "lost: no sign of life for " + time(silent) : "running";
}

function head(s) {
  const n = totals(s), by = {};
  for (const st of s.stages) by[st.status] = (by[st.status] || 0) + 1;
  $("run").textContent = s.run;
  const parts = [word(s), time(s.seconds), count(n.done) + " of " + count(n.total) + " cases measured"];
  if (n.failed) parts.push(count(n.failed) + " failed");
  if (n.skipped) parts.push(count(n.skipped) + " skipped");
  parts.push((by.running || 0) + " stages running, " + (by.waiting || 0) + " waiting");
  if (s.host) parts.push("on " + s.host);
  $("line").textContent = parts.join(", ") + ".";
  document.title = (n.total ? Math.floor(100 * (n.done + n.failed + n.skipped) / n.total) + " % " : "") + "aicplan: " + word(s);
  fill($("bar"), n);
}

function fill(bar, n) {
  for (const k of ["done", "failed", "skipped"]) bar.querySelector("." + k).style.width = n.total ? 100 * n[k] / n.total + "%" : "0";
  bar.setAttribute("aria-valuenow", n.total ? Math.round(100 * (n.done + n.failed + n.skipped) / n.total) : 0);
}

function now(s) {
  const running = s.stages.filter(st => st.status === "running");
  const out = running.map(st => {
    const bar = el("div", { class: "bar" }, el("i", { class: "done" }), el("i", { class: "failed" }), el("i", { class: "skipped" }));
    fill(bar, st);
    const text = st.total ? count(st.done + st.failed + st.skipped) + " of " + count(st.total) + (st.failed ? ", " + count(st.failed) + " failed" : "") +
      (st.rate ? ", " + rate(st.rate) : "") + (st.left_seconds ? ", " + time(st.left_seconds) + " left" : "") : "at work";
    return el("div", { class: "stage" }, el("b", {}, st.address), el("p", {}, text), st.total ? bar : null);
  });
  $("now").replaceChildren(...(out.length ? out : [el("p", { class: "soft" }, s.ended ? "The run has ended." : "No stage is running.")]));
}

function chart(title, unit, points) {
  const w = 300, h = 90, xs = points.map(p => +new Date(p.at)), ys = points.map(p => p.value);
  const x0 = Math.min(...xs), x1 = Math.max(...xs), y1 = Math.max(...ys), y0 = Math.min(0, ...ys);
  const x = v => x1 > x0 ? 2 + (w - 4) * (v - x0) / (x1 - x0) : w / 2, y = v => y1 > y0 ? h - 4 - (h - 8) * (v - y0) / (y1 - y0) : h / 2;
  const last = ys[ys.length - 1];
  const g = svg("svg", { viewBox: `0 0 ${w} ${h}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${value(last)} ${unit} now, at most ${value(y1)}` });
  if (points.length > 1) g.append(svg("polyline", { points: xs.map((v, i) => x(v).toFixed(1) + "," + y(ys[i]).toFixed(1)).join(" "), fill: "none", stroke: "var(--run)", "stroke-width": "1.5", "vector-effect": "non-scaling-stroke" }));
  else g.append(svg("circle", { cx: x(xs[0]), cy: y(ys[0]), r: 3, fill: "var(--run)" }));
  return el("figure", {}, el("figcaption", {}, title), el("span", { class: "now" }, value(last) + " " + unit), g);
}

const metrics = [["latency", "ms"], ["sm_clock_mhz", "MHz"], ["power", "W"], ["gpu_power_w", "W"], ["gpu_utilization_pct", "%"], ["ttft", "ms"], ["itl", "ms"], ["request_throughput", "requests/s"]];
function charts(s) {
  const out = [];
  for (const st of s.stages) if (st.rates && st.rates.length && (st.status === "running" || s.ended)) out.push(chart(st.address + ": rate", "cases/s", st.rates));
  const running = new Set(s.stages.filter(st => st.status === "running").map(st => st.address));
  for (const w of s.workers) {
    if (!s.ended && !running.has(w.stage)) continue;
    for (const [name, unit] of metrics) {
      const pts = w.samples.filter(p => p.metrics[name] != null).map(p => ({ at: p.at, value: p.metrics[name] }));
      if (pts.length) out.push(chart(w.stage + " " + w.worker + (w.device_uuid ? " " + w.device_uuid.slice(0, 12) : "") + ": " + name, unit, pts));
    }
    if (out.length > 40) break;
  }
  $("charts").replaceChildren(...(out.length ? out : [el("p", { class: "soft" }, "Nothing was measured yet.")]));
}

function table(heads, rows) {
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...heads.map(h => el("th", { scope: "col" }, h)))),
    el("tbody", {}, ...rows)));
}

function failures(s) {
  if (!s.failures.length) { $("failures").replaceChildren(el("p", { class: "soft" }, "None.")); return; }
  $("failures").replaceChildren(table(["cases", "class", "stage", "message", "last example"], s.failures.slice(0, 50).map(f =>
    el("tr", {}, el("td", { class: "n" }, count(f.count)), el("td", {}, f.class), el("td", { class: "t" }, f.stage), el("td", { class: "t" }, f.message), el("td", { class: "t" }, el("code", {}, f.example))))));
}

function messages(s) {
  const list = s.messages.slice(-30).reverse();
  if (!list.length) { $("messages").replaceChildren(el("p", { class: "soft" }, "None.")); return; }
  $("messages").replaceChildren(table(["time", "stage", "message"], list.map(m =>
    el("tr", {}, el("td", { class: "n" }, new Date(m.at).toLocaleTimeString()), el("td", { class: "t" }, m.stage), el("td", { class: "t " + m.level }, m.text)))));
}

// graph lays stages out in columns: a stage stands right of everything it needs.
function graph(s) {
  const by = new Map(s.stages.map(st => [st.address, st])), depth = new Map();
  const deep = a => {
    if (depth.has(a)) return depth.get(a);
    depth.set(a, 0);
    const st = by.get(a), d = st ? Math.max(-1, ...st.after.filter(x => by.has(x)).map(deep)) + 1 : 0;
    depth.set(a, d);
    return d;
  };
  const cols = [];
  for (const st of s.stages) { const d = deep(st.address); (cols[d] = cols[d] || []).push(st); }
  const cell = 26, gap = 60, place = new Map();
  let left = 10, height = 0;
  const boxes = [];
  for (const col of cols) {
    const w = Math.min(320, 16 + 7.4 * Math.max(...col.map(st => st.address.length)));
    col.forEach((st, i) => {
      place.set(st.address, { x: left, y: 10 + i * (cell + 8), w });
      const cut = Math.floor((w - 16) / 7.4), text = st.address.length > cut ? "\u2026" + st.address.slice(1 - cut) : st.address;
      boxes.push(svg("g", { class: st.reused ? "reused" : st.status, transform: `translate(${left},${10 + i * (cell + 8)})` },
        svg("title", {}, st.address + ": " + st.status + (st.message ? ", " + st.message : "")), svg("rect", { width: w, height: cell, rx: 4 }), svg("text", { x: 8, y: 17 }, text)));
    });
    height = Math.max(height, col.length * (cell + 8) + 20);
    left += w + gap;
  }
  const edges = [];
  for (const st of s.stages) for (const a of st.after) {
    const p = place.get(a), q = place.get(st.address);
    if (p && q) edges.push(svg("path", { d: `M${p.x + p.w},${p.y + cell / 2} C${p.x + p.w + gap / 2},${p.y + cell / 2} ${q.x - gap / 2},${q.y + cell / 2} ${q.x},${q.y + cell / 2}` }));
  }
  $("graph").replaceChildren(svg("svg", { width: left, height, role: "img", "aria-label": s.stages.length + " stages; the table below has the same" }, ...edges, ...boxes));
}

function stages(s) {
  $("stages").replaceChildren(table(["stage", "status", "cases", "failed", "time", "message"], s.stages.map(st =>
    el("tr", {}, el("td", { class: "t" }, st.address), el("td", {}, st.status + (st.reused ? " (reused)" : "")), el("td", { class: "n" }, st.total ? count(st.done) + " / " + count(st.total) : ""),
      el("td", { class: "n" }, st.failed ? count(st.failed) : ""), el("td", { class: "n" }, time(st.seconds)), el("td", { class: "t" }, st.message || st.reason || "")))));
}

let drawn = "";
function draw(s) {
  head(s); now(s); charts(s); failures(s); messages(s);
  const shape = s.stages.map(st => st.address + st.status + st.reused).join("|");
  if (shape !== drawn) { drawn = shape; graph(s); stages(s); }
}

async function runs(current) {
  const list = await (await fetch("/api/runs")).json();
  $("runs").replaceChildren(list.length ? table(["run", "started", ""], list.slice(0, 100).map(r => el("tr", {},
    el("td", { class: "t" }, r.run === current ? el("b", {}, r.run) : el("a", { href: "/runs/" + encodeURIComponent(r.run) }, r.run)),
    el("td", {}, when(r.started)), el("td", {}, el("a", { href: "/runs/" + encodeURIComponent(r.run) + "/report" }, "report"))))) : el("p", { class: "soft" }, "None yet."));
  return list;
}

async function start() {
  const asked = document.body.dataset.run;
  const list = await runs(asked);
  const id = asked || (list.length ? list[0].run : "");
  if (!id) { $("line").textContent = "The state folder has no run yet; this page looks again every few seconds."; setTimeout(start, 3000); return; }
  const source = new EventSource("/api/runs/" + encodeURIComponent(id) + "/stream");
  let state = null;
  source.onmessage = e => {
    state = JSON.parse(e.data);
    draw(state);
    if (state.ended) { source.close(); runs(id); }
  };
  source.addEventListener("trouble", e => { $("line").textContent = e.data; source.close(); });
  source.onerror = () => { if (source.readyState !== EventSource.CLOSED) $("line").textContent = "The connection is lost; trying again."; };
  setInterval(() => { if (state && !state.ended) head(state); }, 5000);
  setInterval(async () => {
    const newest = await runs(id);
    if (!asked && state && state.ended && newest.length && newest[0].run !== id) location.reload();
  }, 10000);
}
start();
