"use strict";
(() => {
  const $ = (sel, at = document) => at.querySelector(sel);
  const $$ = (sel, at = document) => Array.from(at.querySelectorAll(sel));
  const el = (name, attrs = {}, text) => {
    const e = name === "circle" || name === "rect" ? document.createElementNS($("svg").namespaceURI, name) : document.createElement(name);
    for (const k in attrs) e.setAttribute(k, attrs[k]);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const show = (v, unit) => {
    if (v === null || v === undefined || Number.isNaN(v)) return "-";
    if (typeof v === "number") {
      const a = Math.abs(v);
      v = Number.isInteger(v) && a < 1e15 ? v.toLocaleString("en-US") : a >= 1e6 || a < 1e-4 ? v.toExponential(3) : String(Number(v.toPrecision(5)));
    }
    return unit ? v + " " + unit : String(v);
  };

  // A filter is words and conditions that must all hold.
  const parse = (text) => text.trim().split(/\s+/).filter(Boolean).map((t) => {
    const m = /^([^<>=!]+)(>=|<=|!=|=|<|>)(.+)$/.exec(t);
    return m ? { name: m[1].toLowerCase(), op: m[2], value: m[3].toLowerCase(), num: Number(m[3]) } : { word: t.toLowerCase() };
  });
  const holds = (c, v) => {
    if (v === null || v === undefined) return false;
    const n = typeof v === "number" && !Number.isNaN(c.num);
    const a = n ? v : String(v).toLowerCase(), b = n ? c.num : c.value;
    switch (c.op) {
      case "=": return a === b;
      case "!=": return a !== b;
      case ">": return a > b;
      case "<": return a < b;
      case ">=": return a >= b;
      default: return a <= b;
    }
  };
  // test makes a function of a row; column(name) gives a function of a row or
  // undefined where there is no such column, and words(row) its text.
  const test = (conds, column, words) => {
    const parts = [];
    for (const c of conds) {
      if (c.word !== undefined) parts.push((r) => words(r).includes(c.word));
      else {
        const get = column(c.name);
        if (get) parts.push((r) => holds(c, get(r)));
      }
    }
    return parts.length ? (r) => parts.every((p) => p(r)) : null;
  };

  const tip = $("#tip");
  const place = (ev) => {
    const r = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(ev.clientX + 14, innerWidth - r.width - 6)) + "px";
    tip.style.top = Math.max(4, ev.clientY + 14 + r.height > innerHeight ? ev.clientY - r.height - 10 : ev.clientY + 14) + "px";
  };
  const tell = (ev, head, pairs) => {
    tip.replaceChildren(el("b", {}, head));
    const t = el("table");
    for (const [k, v] of pairs) {
      const tr = el("tr");
      tr.append(el("td", {}, k), el("td", {}, v));
      t.append(tr);
    }
    tip.append(t);
    tip.hidden = false;
    place(ev);
  };
  const inside = (svg, ev) => {
    const p = new DOMPoint(ev.clientX, ev.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [p.x, p.y];
  };

  // Every chart is read when it is first needed: a pointer comes, or a filter.
  class Chart {
    constructor(fig) {
      this.fig = fig;
      this.svg = $("svg:not(.key)", fig);
      this.table = fig.closest("section")?.dataset.name ?? "";
      this.svg.addEventListener("pointermove", (ev) => this.point(ev));
      this.svg.addEventListener("pointerleave", () => this.leave());
      for (const b of $$(".legend button", fig)) b.addEventListener("click", () => this.toggle(b));
    }
    get data() {
      if (!this._data) {
        this._data = JSON.parse($("script", this.fig).textContent);
        if (this._data?.kind === "points") this.read();
      }
      return this._data;
    }
    read() {
      this.marks = [];
      for (const path of $$("path.m", this.svg)) {
        const s = Number(path.dataset.s), parts = (path.getAttribute("d").match(/M[^M]+/g) ?? []);
        path._parts = parts;
        parts.forEach((p, i) => {
          const m = /^M([\d.-]+) ([\d.-]+)/.exec(p);
          this.marks.push({ s, i, x: Number(m[1]), y: Number(m[2]) });
        });
      }
    }
    value(m, c) {
      const col = this._data.cols[c], v = this._data.series[m.s].c[c][m.i];
      return col.words ? col.words[v] : v;
    }
    hidden(s) {
      return this.svg.querySelector(`path.m[data-s="${s}"]`)?.classList.contains("off");
    }
    toggle(b) {
      const on = b.getAttribute("aria-pressed") !== "true";
      b.setAttribute("aria-pressed", on);
      for (const p of $$(`path[data-s="${b.dataset.s}"]`, this.svg)) p.classList.toggle("off", !on);
    }
    filter(conds) {
      if (!$("path.m", this.svg)) return null;
      const d = this.data;
      const column = (name) => {
        if (name === d.by?.toLowerCase()) return (m) => d.series[m.s].name;
        const c = d.cols.findIndex((x) => x.name.toLowerCase() === name);
        return c < 0 ? undefined : (m) => this.value(m, c);
      };
      const words = (m) => {
        let t = this.table + " " + d.series[m.s].name;
        d.cols.forEach((c, i) => { if (c.words) t += " " + this.value(m, i); });
        return t.toLowerCase();
      };
      const ok = test(conds, column, words);
      let n = 0;
      for (const path of $$("path.m", this.svg)) path._keep = [];
      for (const m of this.marks) {
        m.off = ok ? !ok(m) : false;
        if (!m.off) {
          n++;
          this.svg.querySelector(`path.m[data-s="${m.s}"]`)._keep.push(m.i);
        }
      }
      for (const path of $$("path.m", this.svg)) path.setAttribute("d", path._keep.map((i) => path._parts[i]).join(""));
      this.svg.classList.toggle("filtered", ok !== null); // medians are those of all rows
      return n;
    }
    point(ev) {
      const d = this.data, [x, y] = inside(this.svg, ev);
      if (!d) return; // a drawing without values
      if (d.kind === "points") this.nearest(ev, x, y);
      else this.cell(ev, x, y);
    }
    nearest(ev, x, y) {
      let best = null, least = 14 * 14;
      for (const m of this.marks) {
        const q = (m.x - x) ** 2 + (m.y - y) ** 2;
        if (q < least && !m.off && !this.hidden(m.s)) { best = m; least = q; }
      }
      if (!best) return this.leave();
      const d = this.data, pairs = d.cols.map((c, i) => [c.name, show(this.value(best, i), c.unit)]);
      const n = d.series[best.s].n?.[best.i] ?? 1;
      if (n > 1) pairs.push(["rows here", show(n)]);
      tell(ev, d.series[best.s].name, pairs);
      this.ring(el("circle", { class: "halo", cx: best.x, cy: best.y, r: 6 }));
    }
    cell(ev, x, y) {
      const d = this.data, [bx, by, bw, bh] = d.box, nx = d.xs.length, ny = d.ys.length;
      const ix = Math.floor(((x - bx) / bw) * nx), iy = ny - 1 - Math.floor(((y - by) / bh) * ny);
      if (ix < 0 || iy < 0 || ix >= nx || iy >= ny) return this.leave();
      const at = iy * nx + ix, pairs = [[d.x, d.xs[ix]], [d.y, d.ys[iy]]];
      const [p, c, f, k] = d.n[at];
      if (f) pairs.push(["failed", f]);
      if (k) pairs.push(["skipped", k]);
      tell(ev, p ? `${c} of ${p} cases` : "not planned", pairs);
      this.ring(el("rect", { class: "halo", x: bx + (ix * bw) / nx, y: by + ((ny - 1 - iy) * bh) / ny, width: bw / nx, height: bh / ny }));
    }
    ring(e) {
      this.mark?.remove();
      this.mark = e;
      this.svg.append(e);
    }
    leave() {
      this.mark?.remove();
      tip.hidden = true;
    }
  }

  // Rows are unpacked when their part is opened or a filter asks for them.
  class Rows {
    constructor(box) {
      this.box = box;
      this.most = 100;
      this.conds = [];
      box.addEventListener("toggle", () => { if (box.open) this.draw(); });
    }
    async load() {
      if (this.data) return;
      const packed = Uint8Array.from(atob($("script", this.box).textContent), (c) => c.charCodeAt(0));
      if (typeof DecompressionStream === "undefined") throw new Error("this browser cannot unpack them; the perf file has them too");
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      this.data = JSON.parse(await new Response(stream).text());
      this.name = (this.box.closest("section")?.dataset.name ?? "").toLowerCase();
    }
    at(c, r) {
      const v = c.v[r];
      if (v === null) return null;
      if (c.time) return new Date(v * 1000).toISOString().slice(0, 19).replace("T", " ");
      return v;
    }
    async draw() {
      const grid = $(".grid", this.box);
      try { await this.load(); } catch (e) { grid.textContent = "The rows cannot be shown: " + e.message; return; }
      const d = this.data;
      const ok = test(this.conds, (name) => {
        const c = d.cols.find((x) => x.name.toLowerCase() === name);
        return c && ((r) => this.at(c, r));
      }, (r) => (this.name + " " + d.cols.filter((c) => c.text).map((c) => c.v[r]).join(" ")).toLowerCase());
      let rows = [];
      for (let r = 0; r < d.rows; r++) if (!ok || ok(r)) rows.push(r);
      this.found = rows.length;
      if (this.sort) {
        const { c, dir } = this.sort, col = d.cols[c];
        const key = (r) => col.v[r] ?? Infinity;
        rows.sort((a, b) => { const x = key(a), y = key(b); return (x < y ? -1 : x > y ? 1 : a - b) * dir; });
      }
      const t = el("table"), head = el("tr");
      d.cols.forEach((c, i) => {
        const th = el("th", { scope: "col" }, c.name);
        if (this.sort?.c === i) th.setAttribute("aria-sort", this.sort.dir > 0 ? "ascending" : "descending");
        th.addEventListener("click", () => { this.sort = { c: i, dir: this.sort?.c === i ? -this.sort.dir : 1 }; this.draw(); });
        head.append(th);
      });
      const body = el("tbody");
      for (const r of rows.slice(0, this.most)) {
        const tr = el("tr");
        for (const c of d.cols) {
          const v = this.at(c, r);
          tr.append(el("td", typeof v === "number" ? { class: "num" } : {}, typeof v === "number" ? show(v) : v ?? ""));
        }
        body.append(tr);
      }
      const th = el("thead");
      th.append(head);
      t.append(th, body);
      grid.replaceChildren(el("p", { class: "found" }, `${show(rows.length)} of ${show(d.rows)} rows`), t);
      if (rows.length > this.most) {
        const more = el("button", { type: "button", class: "more" }, `Show ${show(Math.min(1000, rows.length - this.most))} more`);
        more.addEventListener("click", () => { this.most += 1000; this.draw(); });
        grid.append(more);
      }
    }
  }

  const charts = $$(".chart").map((f) => new Chart(f)), rows = $$("details.rows").map((d) => new Rows(d));
  const box = $("#filter"), hits = $("#hits");
  const apply = () => {
    const conds = parse(box.value);
    let marks = 0;
    for (const c of charts) marks += c.filter(conds) ?? 0;
    for (const r of rows) {
      r.conds = conds;
      r.most = 100;
      if (r.box.open) r.draw();
    }
    const words = conds.filter((c) => c.word !== undefined);
    for (const tr of $$("tr[data-f]")) tr.style.display = words.every((c) => tr.textContent.toLowerCase().includes(c.word)) ? "" : "none";
    hits.textContent = conds.length ? `${show(marks)} marks` : "";
  };
  let due;
  box?.addEventListener("input", () => { clearTimeout(due); due = setTimeout(apply, 120); });
  box?.addEventListener("keydown", (ev) => { if (ev.key === "Escape") { box.value = ""; apply(); } });

  $("#theme")?.addEventListener("click", () => {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // Paper has no way to open a part.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = $$("details:not(.rows):not(.reference)").filter((d) => !d.open);
    for (const d of closed) d.open = true;
  });
  addEventListener("afterprint", () => { for (const d of closed) d.open = false; });
  document.documentElement.dataset.ready = "yes";
})();
