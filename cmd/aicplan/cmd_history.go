package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/sink/phrase"
	"aicplan/sink/table"
	"aicplan/sink/visible"
	"aicplan/stages/collect"
)

type historyCmd struct {
	Address string `arg:"" help:"Address of a collect, such as collect.gemm."`
	Where   string `help:"Only cases of which this HCL expression is true; columns are names in it, such as 'm == 64'." placeholder:"EXPRESSION"`
	Limit   *int   `help:"At most N cases." default:"20" placeholder:"N"`
	JSON    bool   `name:"json" help:"Print a JSON object a try, one a line."`
}

// Validate is called by kong.
func (c *historyCmd) Validate() error {
	if *c.Limit < 1 {
		return fmt.Errorf("-limit is %d; it is a number from 1", *c.Limit)
	}
	return nil
}

// Run shows every try of some cases that the state folder still has: over runs,
// versions, devices and settings.
func (c *historyCmd) Run(a *app) error {
	store, err := a.open(true)
	if err != nil {
		return err
	}
	defer store.Close()
	d, err := storedStage(store, c.Address)
	if err != nil {
		return err
	}
	t := d.Table
	if t == nil {
		t = d.Planned
	}
	if t == nil || !table.Has(t, "case_id") {
		return fmt.Errorf("%s has no cases: give the address of a collect", c.Address)
	}
	if c.Where != "" {
		if t, _, err = where(t, c.Where); err != nil {
			return err
		}
	}
	all := t.NumRows()
	t = limited(t, *c.Limit)
	names, err := table.Strings(t, "case_id")
	if err != nil {
		return err
	}
	past, err := collect.FindPast(store, d.Info.Op, names.Values)
	if err != nil {
		return err
	}
	if c.JSON {
		for x, err := range past.All() {
			if err != nil {
				return err
			}
			line, err := json.Marshal(x)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(a.stdout, "%s\n", line); err != nil {
				return err
			}
		}
		return nil
	}
	seen := make(map[string]bool, len(names.Values))
	changed := changes{}
	for i, id := range names.Values {
		if seen[id] {
			continue
		}
		seen[id] = true
		told, err := past.Of(id)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.stdout, caseText(t, i, d.Info.Params)); err != nil {
			return err
		}
		a.tries(a.stdout, told, d.Info, changed)
	}
	if all > t.NumRows() {
		var b strings.Builder
		wrapped(&b, a.columns(), 2, "", fmt.Sprintf("%d of %s; -where and -limit choose others.", t.NumRows(), phrase.Some(all, "case")))
		fmt.Fprintf(a.stdout, "\n%s", b.String())
	}
	return nil
}

// caseText is a case by its parameters.
func caseText(t arrow.Record, row int, params []string) string {
	var parts []string
	for _, p := range params {
		if at := table.Index(t, p); at >= 0 {
			text, _ := cellText(table.Value(t, at, row))
			parts = append(parts, p+"="+text)
		}
	}
	return strings.Join(parts, " ")
}

// changes are the differences between conditions, of which a journal has one for all
// of its tries.
type changes map[[2]string][]string

func (c changes) between(a, b json.RawMessage) []string {
	if bytes.Equal(a, b) {
		return nil
	}
	key := [2]string{string(a), string(b)}
	out, known := c[key]
	if !known {
		out = collect.Changed(a, b)
		c[key] = out
	}
	return out
}

// tries prints a line a try: when, what it came to, how much that differs from the
// try before, and what was other than there.
func (a *app) tries(w io.Writer, told []collect.Told, info stage.Info, changed changes) {
	if len(told) == 0 {
		fmt.Fprintln(w, "  the journals have no entry of it: its row came from elsewhere, or ckpt gc has tidied it away")
		return
	}
	metric := catalog.SchemaOf(info.Perf).Primary()
	var before *collect.Told
	last := 0.0
	for i, x := range told {
		when := x.At
		if at, err := time.Parse(time.RFC3339Nano, x.At); err == nil {
			when = at.Local().Format("2006-01-02 15:04:05")
		}
		text := ""
		if x.Failure != nil {
			text = phrase.Clip(visible.Line(phrase.OneLine(fmt.Sprintf("failed: %s: %s", x.Failure.Class, x.Failure.Message))), 100)
		} else if len(x.Rows) > 0 {
			text, last = tryText(x, metric, last)
		}
		var notes []string
		if before == nil {
			notes = append(notes, strings.Join(strings.Fields(x.Framework+" "+x.Version), " "), x.Device)
		} else {
			notes = append(notes, changed.between(before.Conditions, x.Conditions)...)
			if x.DeviceUUID != before.DeviceUUID {
				notes = append(notes, "device "+x.DeviceUUID)
			}
		}
		var b strings.Builder
		wrapped(&b, a.columns(), 6, fmt.Sprintf("  %-19s  %-38s ", cmp.Or(when, "unknown when"), text), strings.Join(without(notes, []string{""}, nil), "; "))
		fmt.Fprint(w, b.String())
		before = &told[i]
	}
}

// tryText is what a measured case came to, and by how much that is other than
// last; with several rows that of the first.
func tryText(x collect.Told, metric catalog.Column, last float64) (string, float64) {
	v, ok := floatOf(x.Rows[0][metric.Name])
	if !ok {
		return "measured", last
	}
	text := strings.TrimSpace(shortNumber(v) + " " + metric.Unit)
	if s, ok := floatOf(x.Rows[0]["rel_stdev"]); ok {
		text += fmt.Sprintf(" ± %s %%", percentText(100*s))
	}
	if last > 0 {
		text += fmt.Sprintf("  %+.1f %%", 100*(v/last-1))
	}
	return text, v
}

func floatOf(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

// percentText has two digits that count.
func percentText(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2g", v)
}
