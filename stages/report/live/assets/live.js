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
  s = Math.round(s);
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + s % 60 + " s";
  const minutes = Math.round(s / 60);
  return Math.floor(minutes / 60) + " h " + minutes % 60 + " min";
}
const value = v => v == null ? "" : Math.abs(v) >= 100 ? v.toFixed(0) : Math.abs(v) >= 1 ? v.toFixed(2) : v.toPrecision(3);
const rate = r => r == null ? "" : r >= 1 ? r.toFixed(1) + "/s" : (60 * r).toFixed(1) + "/min";
const two = n => String(n).padStart(2, "0");
const clock = t => { const d = new Date(t); return two(d.getHours()) + ":" + two(d.getMinutes()) + ":" + two(d.getSeconds()); };
const when = t => { const d = new Date(t); return d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate()) + " " + clock(t); };
const some = (n, what) => count(n) + " " + what + (n === 1 ? "" : "s");

// put fills an element when what it shows has changed: what a reader has focused,
// selected or scrolled stays where it is.
function put(id, shown, make) {
  const e = $(id), key = JSON.stringify(shown);
  if (e.shown === key) return;
  const had = e.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  e.shown = key;
  e.replaceChildren(...make());
  if (had) for (const a of e.querySelectorAll("a")) if (a.getAttribute("href") === had) { a.focus(); break; }
}
const soft = text => el("p", { class: "soft" }, text);

function totals(s) {
  const n = { done: 0, failed: 0, skipped: 0, total: 0 };
  for (const st of s.stages) if (st.measures) for (const k in n) n[k] += st[k];
  return n;
}

// lost is why a run that has not ended does not go on; "" while it does.
function lost(s) {
  if (s.ended) return "";
  if (s.gone) return "its process is gone";
  const silent = (Date.now() - new Date(s.seen)) / 1000;
  return silent > 100 ? "no sign of life for " + time(silent) : "";
}

function word(s) {
  const left = s.stages.some((st) => st.status === "interrupted");
  if (s.ended) return s.exit_code === 0 ? (left ? "detached" : "done") : "ended with exit code " + s.exit_code;
  return lost(s) ? "lost: " + lost(s) : "running";
}

let said = "";
function head(s) {
  const n = totals(s), by = {};
  for (const st of s.stages) by[st.status] = (by[st.status] || 0) + 1;
  $("plan").textContent = s.plan ? s.plan.replace(/.*\//, "") : "aicplan";
  $("plan").title = s.plan || "";
  $("run").textContent = s.run + (s.host ? " on " + s.host : "");
  const parts = [word(s), time(s.seconds)];
  if (n.total) parts.push(count(n.done) + " of " + some(n.total, "case") + " measured");
  if (n.failed) parts.push(count(n.failed) + " failed");
  if (n.skipped) parts.push(count(n.skipped) + " skipped");
  if (!s.ended) parts.push(some(by.running || 0, "stage") + " running, " + (by.waiting || 0) + " waiting");
  const text = parts.join(", ") + ".";
  $("line").replaceChildren(text, ...(s.ended || lost(s) ? [" ", el("a", { href: "/runs/" + encodeURIComponent(s.run) + "/report" }, "Report of this run")] : []));
  const share = n.total ? Math.floor(100 * (n.done + n.failed + n.skipped) / n.total) + " % " : "";
  document.title = share + "aicplan: " + word(s).replace(/:.*/, "");
  // Readers of screens hear of every tenth, not of every second.
  const now = word(s).replace(/:.*/, "") + (n.total ? ", " + 10 * Math.floor(parseInt(share) / 10) + " % of the cases" : "");
  if (now !== said) $("said").textContent = said = now;
  fill($("bar"), n);
}

function fill(bar, n) {
  for (const k of ["done", "failed", "skipped"]) bar.querySelector("." + k).style.width = n.total ? 100 * n[k] / n.total + "%" : "0";
  bar.setAttribute("aria-valuenow", n.total ? Math.round(100 * (n.done + n.failed + n.skipped) / n.total) : 0);
}

function now(s) {
  const running = s.stages.filter(st => st.status === "running"), gone = lost(s);
  if (!running.length || s.ended) { put("now", [s.ended, gone], () => [soft(s.ended ? "The run has ended." : gone ? "The run is lost: " + gone + "." : "No stage is running.")]); return; }
  put("now", [gone, running.map(st => [st.address, st.done, st.failed, st.skipped, st.total, st.rate, st.left_seconds])], () => [
    ...(gone ? [soft("The run is lost: " + gone + ". Where it was:")] : []), ...running.map(st => {
      const bar = el("div", { class: "bar", role: "img", "aria-label": "progress" }, el("i", { class: "done" }), el("i", { class: "failed" }), el("i", { class: "skipped" }));
      fill(bar, st);
      const text = st.total ? count(st.done + st.failed + st.skipped) + " of " + some(st.total, "case") + (st.failed ? ", " + count(st.failed) + " failed" : "") +
        (gone ? "" : (st.rate ? ", " + rate(st.rate) : "") + (st.left_seconds ? ", about " + time(st.left_seconds) + " left" : "")) : gone ? "had begun" : "at work";
      return el("div", { class: "stage" }, el("b", {}, st.address), el("p", {}, text), st.total ? bar : null);
    })]);
}

// at work are the stages that the workers and charts are shown of: those that run
// now, else those that have measured something.
function shownStages(s) {
  const running = s.stages.filter(st => st.status === "running" && st.total > 0);
  return new Set((running.length ? running : s.stages).map(st => st.address));
}

function workers(s) {
  const of = shownStages(s), list = s.workers.filter(w => of.has(w.stage)).sort((a, b) => a.stage.localeCompare(b.stage) || a.worker.localeCompare(b.worker, "en", { numeric: true })).slice(0, 200);
  put("workers", list.map(w => [w.stage, w.worker, w.cases, w.samples.length && w.samples[w.samples.length - 1].at]), () => {
    if (!list.length) return [soft("None has measured anything yet.")];
    const last = w => w.samples[w.samples.length - 1] || { metrics: {} };
    const cols = metrics.filter(([name]) => list.some(w => last(w).metrics[name] != null));
    return [table(["worker", "device", "stage", "cases at the last sample", "rate", ...cols.map(([name, unit]) => name + ", " + unit)], list.map(w => [
      [w.worker], [w.device_uuid || "", "t"], [w.stage, "t"], [w.cases ? count(w.cases) : "", "n"], [s.ended || lost(s) ? "" : rate(w.rate), "n"],
      ...cols.map(([name]) => [value(last(w).metrics[name]), "n"])]))];
  });
}

function chart(title, unit, points) {
  const w = 300, h = 90, xs = points.map(p => +new Date(p.at)), ys = points.map(p => p.value);
  const x0 = Math.min(...xs), x1 = Math.max(...xs), least = Math.min(...ys), most = Math.max(...ys), y0 = Math.min(0, least), y1 = Math.max(0, most);
  const x = v => x1 > x0 ? 2 + (w - 4) * (v - x0) / (x1 - x0) : w / 2, y = v => y1 > y0 ? h - 4 - (h - 8) * (v - y0) / (y1 - y0) : h - 4;
  const last = ys[ys.length - 1], range = points.length > 1 ? value(least) + " to " + value(most) + " " + unit + ", " + clock(x0) + " to " + clock(x1) : "at " + clock(x0);
  const g = svg("svg", { viewBox: `0 0 ${w} ${h}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${value(last)} ${unit} last, ${range}` });
  g.append(svg("line", { x1: 0, x2: w, y1: y(0), y2: y(0), stroke: "var(--line)", "vector-effect": "non-scaling-stroke" }));
  if (points.length > 1) g.append(svg("polyline", { points: xs.map((v, i) => x(v).toFixed(1) + "," + y(ys[i]).toFixed(1)).join(" "), fill: "none", stroke: "var(--run)", "stroke-width": "1.5", "vector-effect": "non-scaling-stroke" }));
  else g.append(svg("circle", { cx: x(xs[0]), cy: y(ys[0]), r: 3, fill: "var(--run)" }));
  return el("figure", {}, el("figcaption", {}, title), el("span", { class: "now" }, value(last) + " " + unit), g, el("small", {}, range));
}

const metrics = [["latency", "ms"], ["sm_clock_mhz", "MHz"], ["power", "W"], ["gpu_power_w", "W"], ["gpu_utilization_pct", "%"], ["ttft", "ms"], ["itl", "ms"], ["request_throughput", "requests/s"]];
// rates of a worker, from one sample to the next.
function workerRates(w) {
  const out = [];
  for (let i = 1; i < w.samples.length; i++) {
    const a = w.samples[i - 1], b = w.samples[i], span = (new Date(b.at) - new Date(a.at)) / 1000;
    if (b.cases > 0 && b.cases >= (a.cases || 0) && span > 0) out.push({ at: b.at, value: (b.cases - (a.cases || 0)) / span });
  }
  return out;
}

const mostCharts = 48;
function charts(s) {
  const of = shownStages(s), list = [];
  for (const st of s.stages) if (of.has(st.address) && st.rates && st.rates.length) list.push([st.address + ": rate", "cases/s", st.rates]);
  for (const w of s.workers) {
    if (!of.has(w.stage)) continue;
    const name = w.stage + " " + w.worker + (w.device_uuid ? " " + w.device_uuid.slice(0, 12) : "") + ": ", rates = workerRates(w);
    if (rates.length && s.workers.length > 1) list.push([name + "rate", "cases/s", rates]);
    for (const [metric, unit] of metrics) {
      const pts = w.samples.filter(p => p.metrics[metric] != null).map(p => ({ at: p.at, value: p.metrics[metric] }));
      if (pts.length) list.push([name + metric, unit, pts]);
    }
  }
  const more = list.length - mostCharts;
  put("charts", list.map(([title, , pts]) => [title, pts.length, pts[pts.length - 1]]), () => list.length ? [
    ...list.slice(0, mostCharts).map(c => chart(...c)), ...(more > 0 ? [soft("and " + some(more, "chart") + " of other workers")] : [])] : [soft("Nothing was measured yet.")]);
}

// table takes rows of cells: text or a node, and a class.
// Columns without a value in any row are left out.
function table(heads, rows) {
  const cols = heads.map((_, i) => i).filter(i => rows.some(r => r[i][0]));
  const numbers = i => rows.every(r => r[i][1] === "n") ? "n" : null;
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...cols.map(i => el("th", { scope: "col", class: numbers(i) }, heads[i])))),
    el("tbody", {}, ...rows.map(cells => el("tr", {}, ...cols.map(i => el("td", { class: cells[i][1], "data-head": heads[i] }, cells[i][0] || null)))))));
}

function failures(s) {
  const list = s.failures.slice(0, 50);
  put("failures", list, () => list.length ? [table(["cases", "class", "stage", "message", "last example"], list.map(f =>
    [[count(f.count), "n"], [f.class], [f.stage, "t"], [f.message, "t"], [f.example && el("code", {}, f.example), "t"]]))] : [soft("None.")]);
}

function messages(s) {
  const list = s.messages.slice(-30).reverse();
  put("messages", list, () => list.length ? [table(["time", "stage", "message"], list.map(m => [[clock(m.at)], [m.stage, "t"], [m.text, "t " + m.level]]))] : [soft("None.")]);
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
  put("stages", s.stages.map(st => [st.address, st.status, st.reused, st.done, st.failed, st.message]), () => [table(["stage", "status", "cases", "failed", "time", "message"], s.stages.map(st =>
    [[st.address, "t"], [st.status + (st.reused ? " (reused)" : "")], [st.total ? count(st.done) + " of " + count(st.total) : "", "n"],
      [st.failed ? count(st.failed) : "", "n"], [time(st.seconds), "n"], [st.message || st.reason || "", "t"]]))]);
}

let drawn = "";
function draw(s) {
  head(s); now(s); workers(s); charts(s); failures(s); messages(s);
  if ($("stages").parentElement.open) stages(s);
  const shape = s.stages.map(st => st.address + st.status + st.reused).join("|");
  if (shape !== drawn) { drawn = shape; graph(s); }
}

function trouble(text) { $("trouble").textContent = text; $("trouble").hidden = !text; }

const shownRuns = 100;
async function runs(current) {
  const list = await (await fetch("/api/runs")).json();
  put("runs", [current, list.slice(0, shownRuns), list.length], () => list.length ? [table(["run", "state", "plan", "started", "took", ""], list.slice(0, shownRuns).map(r => {
    const at = "/runs/" + encodeURIComponent(r.run), over = r.state !== "running";
    return [[el("a", { href: at, "aria-current": r.run === current ? "page" : null }, r.run), "t" + (r.run === current ? " here" : "")],
      [r.state + (r.exit_code ? ", exit code " + r.exit_code : "")], [r.plan || "", "t"], [when(r.started)], [over ? time(r.seconds) : "", "n"], [over ? el("a", { href: at + "/report" }, "report") : ""]];
  })), ...(list.length > shownRuns ? [soft("and " + some(list.length - shownRuns, "older run") + ": aicplan report -list")] : [])] : [soft("None yet.")]);
  return list;
}

let state = null, source = null, over = false;

// connect follows a run. A browser comes back by itself when the server was away,
// but not when the server turned it down.
function connect(id) {
  source = new EventSource("/api/runs/" + encodeURIComponent(id) + "/stream");
  source.onmessage = e => {
    state = JSON.parse(e.data);
    trouble("");
    draw(state);
    if (state.ended) { over = true; source.close(); runs(id).catch(() => {}); }
  };
  source.addEventListener("trouble", e => { over = true; trouble(e.data); source.close(); });
  source.onerror = async () => {
    if (source.readyState !== EventSource.CLOSED) { trouble("The connection to aicplan serve is lost; trying again. What stands here is as of " + clock(Date.now()) + "."); return; }
    if (over) return;
    const status = await fetch("/api/runs/" + encodeURIComponent(id)).then(r => r.status, () => 0);
    if (status === 401) trouble("The server asks for another token than this page has: open the address that aicplan serve printed.");
    else if (status === 404) { over = true; trouble("The state folder does not have this run any more."); }
    else { trouble("The connection to aicplan serve is lost; trying again."); setTimeout(() => connect(id), 3000); }
  };
}

async function start() {
  const asked = document.body.dataset.run;
  let list;
  try { list = await runs(asked); } catch { trouble("aicplan serve does not answer; trying again."); setTimeout(start, 3000); return; }
  trouble("");
  const id = asked || (list.length ? list[0].run : "");
  if (!id) { $("line").textContent = "The state folder has no run yet; this page looks again every few seconds."; setTimeout(start, 3000); return; }
  runs(id).catch(() => {});
  $("stages").parentElement.addEventListener("toggle", () => { if (state) stages(state); });
  connect(id);
  setInterval(() => { if (state && !state.ended) { head(state); now(state); } }, 5000);
  setInterval(() => look(asked, id), 10000);
}

// look lists the runs anew, and goes on to a newer one when this one is over and
// nobody asked for it by name.
async function look(asked, id) {
  const list = await runs(id).catch(() => []);
  if (!asked && state && (state.ended || lost(state)) && list.length && list[0].run !== id) location.reload();
}
start();
