package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

var signs = map[stage.Action]string{
	stage.ActionCollect: "+", stage.ActionReuse: "=", stage.ActionStale: "~", stage.ActionUnknown: "?",
	stage.ActionNeeds: "!", stage.ActionRun: ">", stage.ActionReady: ".",
}

// viewSummary prints a plan for people, one line per stage. With verbose, it adds how the number of cases
// of each grid was derived.
func (a *app) viewSummary(sum plan.Summary, verbose bool) {
	declared := fold(sum.Stages)
	shorten(sum.Stages)
	w := addressWidth(sum.Stages)
	wide := a.columns()
	w = min(w, max(12, wide-30))
	// If no stage has a known time, only the last line mentions it.
	unknown := sum.Totals.Estimated > 0 && sum.Totals.Estimated < sum.Totals.Collect
	var b strings.Builder
	for i, s := range sum.Stages {
		if !verbose && (quiet(s) || declared[i] < 0) {
			continue
		}

		text := headline(s)
		if c := s.Cases; c != nil && c.Rows > c.Collect && c.Collect > 0 {
			text += fmt.Sprintf(" (%s rows)", textutil.Count(c.Rows))
		} else if d := declared[i]; d > 0 && !verbose {
			text += fmt.Sprintf(" of %s", textutil.Count(d))
		}

		if c := s.Cases; c != nil && c.Seconds > 0 && c.Collect > 0 {
			text += ", about" + keep + textutil.Duration(c.Seconds)
		} else if c != nil && c.Collect > 0 && unknown {
			text += ", time" + keep + "not" + keep + "known"
		}

		address, indent := s.Address, w+5
		if utf8.RuneCountInString(address) > w && wide-utf8.RuneCountInString(address)-5 < 24 { // too wide for one line
			fmt.Fprintf(&b, "  %s %s\n", a.tint(signs[s.Action], colors[s.Action]), address)
			wrapped(&b, wide, min(indent, 10), strings.Repeat(" ", min(indent, 10)), text)
		} else {
			head := fmt.Sprintf("  %s %-*s ", signs[s.Action], w, address)
			wrapped(&b, wide, min(indent, wide/2), head, text, signs[s.Action], a.tint(signs[s.Action], colors[s.Action]))
		}

		if s.Cases != nil && !verbose && (s.Action == stage.ActionStale || s.Action == stage.ActionNeeds) {
			wrapped(&b, wide, 6, "      ", s.Reason)
		}

		if s.Request != nil {
			fmt.Fprintf(&b, "      %s\n", s.Request.Text())
		}

		for _, w := range s.Warnings {
			wrapped(&b, wide, 6, "      ", w)
		}

		if verbose {
			a.waterfall(&b, s)
		}
	}

	if !verbose {
		a.rest(&b, sum.Stages)
	}

	b.WriteByte('\n')
	if a.screen() == 0 { // no terminal: one line, for grep
		b.WriteString(sum.Line() + "\n")
	} else {
		wrapped(&b, wide, 2, "", sum.Line())
	}

	fmt.Fprint(a.stdout, b.String())
}

// fold selects the grids that are shown on the line of the only collect that reads them. The result maps
// the index of a folded grid to -1. It maps the index of its collect to the number of combinations that
// the grid declares, if that is more than its cases.
func fold(all []plan.StageSummary) map[int]int64 {
	at := map[string]int{}
	for i, s := range all {
		if s.Grid != nil {
			at[s.Address] = i
		}
	}

	readers := map[string][]int{}
	for i, s := range all {
		for _, d := range s.DependsOn {
			if _, ok := at[d]; ok && s.Cases != nil {
				readers[d] = append(readers[d], i)
			}
		}
	}

	out := map[int]int64{}
	for d, who := range readers {
		if len(who) != 1 {
			continue
		}
		g := all[at[d]].Grid
		out[at[d]] = -1
		if g.Declared > int64(g.Cases) {
			out[who[0]] = g.Declared
		}
	}

	return out
}

// shorten removes the modules from addresses that remain unique.
func shorten(all []plan.StageSummary) {
	seen := map[string]int{}
	for _, s := range all {
		seen[config.LocalAddress(s.Address)]++
	}
	for i, s := range all {
		if local := config.LocalAddress(s.Address); seen[local] == 1 {
			all[i].Address = local
		}
	}
}

// quiet reports whether a stage is only counted unless -v is given, because its line adds no
// information.
func quiet(s plan.StageSummary) bool {
	if len(s.Warnings) > 0 {
		return false
	}
	return s.Action == stage.ActionUnknown || (s.Action == stage.ActionReuse && s.Cases == nil && !s.Measures) ||
		s.Action == stage.ActionRun
}

// rest counts the stages that have no line of their own.
func (a *app) rest(b *strings.Builder, all []plan.StageSummary) {
	kinds := map[string][]string{}
	for _, s := range all {
		if quiet(s) {
			action := string(s.Action)
			if s.Guard && s.Action == stage.ActionReuse {
				action = "idle"
			}
			kinds[action] = append(kinds[action], s.Kind)
		}
	}

	if len(kinds["unknown"]) == 1 {
		kinds["one unknown"], kinds["unknown"] = kinds["unknown"], nil
	}

	for _, line := range [][2]string{{"run", "> %s first"}, {"idle", "= %s not needed: nothing behind it runs"},
		{"reuse", "= %s as before"}, {"one unknown", "? %s follows what it reads"},
		{"unknown", "? %s follow what they read"}} {
		if of := kinds[line[0]]; len(of) > 0 {
			wrapped(b, a.foldWidth(), 4, "  ", fmt.Sprintf(line[1], countsOf(of)))
		}
	}
}

// countsOf counts equal words in the order in which they occur first: "2 gate, 1 export".
func countsOf(words []string) string {
	n := map[string]int{}
	var out []string
	for _, w := range words {
		if n[w]++; n[w] == 1 {
			out = append(out, w)
		}
	}
	for i, w := range out {
		out[i] = fmt.Sprintf("%d %s", n[w], w)
	}
	return strings.Join(out, ", ")
}

func addressWidth(all []plan.StageSummary) int {
	w := 20
	for _, s := range all {
		w = max(w, len(s.Address))
	}
	return min(w, 42)
}

// headline returns what apply would do with a stage.
func headline(s plan.StageSummary) string {
	switch {
	case s.Grid != nil:
		text := textutil.Count(s.Grid.Cases) + " cases"
		if s.Grid.Cases == 1 {
			text = "1 case"
		}
		if s.Grid.Rows != s.Grid.Cases {
			text += ", " + textutil.Count(s.Grid.Rows) + " rows"
		}
		if d := s.Grid.Declared - int64(s.Grid.Cases); d > 0 {
			text += fmt.Sprintf(" of %s", textutil.Count(s.Grid.Declared))
		}
		return text

	case s.Cases != nil:
		return collectLine(s)
	}

	return s.Reason
}

func collectLine(s plan.StageSummary) string {
	c := s.Cases
	var parts []string
	if c.Collect > 0 || c.Reuse == 0 {
		parts = append(parts, textutil.Count(c.Collect)+" to collect")
	}
	if c.Reuse > 0 {
		parts = append(parts, textutil.Count(c.Reuse)+" reused")
	}
	if c.Hold > 0 {
		parts = append(parts, textutil.Count(c.Hold)+" failed before")
	}
	if c.Unsupported > 0 {
		parts = append(parts, textutil.Count(c.Unsupported)+" unsupported")
	}

	return strings.Join(parts, ", ")
}

// waterfall prints how the number of cases of a grid was derived.
func (a *app) waterfall(b *strings.Builder, s plan.StageSummary) {
	if s.Reason != "" && s.Grid == nil && s.Cases != nil {
		fmt.Fprintf(b, "        %s\n", s.Reason)
	}
	if c := s.Cases; c != nil && c.Basis != "" {
		wrapped(b, a.foldWidth(), 10, "        ", "estimate: "+c.Basis)
	}

	for _, n := range s.Notes {
		wrapped(b, a.foldWidth(), 10, "        ", n)
	}

	w := s.Grid
	if w == nil {
		return
	}

	var axes []string
	for _, x := range w.Axes {
		axes = append(axes, fmt.Sprintf("%s %d", x.Name, x.Size))
	}

	line := func(count, text string) {
		wrapped(b, a.foldWidth(), 24, fmt.Sprintf("      %14s  ", count), text)
	}
	line(textutil.Count(w.Declared), "declared: "+textutil.Clip(strings.Join(axes, " x "), 200))

	var idle []string
	for _, f := range w.Filters {
		if f.Dropped == 0 {
			idle = append(idle, f.Name)
			continue
		}
		note := f.Reason
		if f.Note != "" {
			note = strings.TrimSpace(note + " (" + f.Note + ")")
		}
		line("-"+textutil.Count(f.Dropped), f.Name+": "+note)
		for _, sample := range f.Samples {
			line("", keep+keep+"e.g. "+sample)
		}
	}

	if len(idle) > 0 {
		line("-0", strings.Join(idle, ", "))
	}
	if w.Duplicates > 0 {
		line("-"+textutil.Count(w.Duplicates), "duplicates")
	}

	line("="+textutil.Count(w.Cases), "cases")
}

var colors = map[stage.Action]string{
	stage.ActionCollect: "32", stage.ActionStale: "33", stage.ActionNeeds: "31", stage.ActionUnknown: "36",
	stage.ActionRun: "32",
}

// tint adds a colour to text on a terminal. An empty color changes nothing.
func (a *app) tint(text, color string) string {
	if color == "" || !a.colorOut() {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
