package export

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/systems"
)

// fit rejects rows that readers cannot use: rows without a value that identifies or measures them, with a
// value that is no measurement, or with text that programs act on. Readers would take them silently.
func (sh shape) fit(rec arrow.Record, key []string) error {
	if err := rules.Texts(rec); err != nil {
		if bad := (*rules.TextError)(nil); errors.As(err, &bad) && bad.Row >= 0 {
			return fmt.Errorf("%w (%s)", err, table.Describe(rec, bad.Row, key))
		}
		return err
	}

	if sh.table != nil {
		if bad := rules.Schema(rec, sh.table, rules.SchemaOptions{}); len(bad) > 0 {
			return fmt.Errorf("readers of %s cannot use these rows: %s; check \"schema\" of a gate finds them before",
				sh.table.Name, strings.Join(bad, "; "))
		}
	}

	schema := catalog.SchemaOf("")
	if sh.table != nil {
		schema = sh.table.Schema()
	}

	declared := sh.table != nil && sh.table.Declared // a plan states which metrics may be zero
	for i, m := range schema.Metrics {
		if !table.Has(rec, m.Name) {
			continue
		}

		why, first, err := rules.Metric(rec, m.Name, i == 0, m.Zero || m.Lacking && !declared)
		switch {
		case err != nil:
			return err
		case first >= 0:
			hint := ""
			if i == 0 {
				hint = "; check \"limits\" of a gate finds them before"
			}
			return fmt.Errorf("%s is no measurement in some of %d rows (%s), for example in %s%s", m.Name, rec.NumRows(), why,
				table.Describe(rec, first, append(key, m.Name)), hint)
		}
	}

	return nil
}

// oneOrigin rejects rows of several frameworks, versions or devices in one folder of a database, because a
// folder has one of each.
func oneOrigin(rec arrow.Record, layout tree.Layout) error {
	if layout == tree.Flat {
		return nil
	}

	for _, name := range []string{"framework", "version", "device"} {
		seen := table.Distinct(rec, name)
		if slices.ContainsFunc(seen, func(v string) bool { return !strings.EqualFold(v, seen[0]) }) {
			return fmt.Errorf("the rows are of several %ss (%s), and a folder of a database is of one; export them separately",
				name, strings.Join(seen, ", "))
		}
	}

	return nil
}

// readsAsNumber reports whether readers that guess types parse a text as a number: pandas
// reads 007 as 7, and int() of Python reads 1_0 as 10.
func readsAsNumber(text string) bool {
	_, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(text), "_", ""), 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// warning returns the result of a check that only warns.
func warning(name, format string, args ...any) stage.CheckResult {
	return stage.CheckResult{Name: name, Severity: "warn", Result: "warn", Message: fmt.Sprintf(format, args...)}
}

// doubt adds warnings about the rows of the file, of which some may come from the file that it replaces.
func (a *assembly) doubt(rec arrow.Record, key []string) error {
	warn := func(name, format string, args ...any) { a.doubts = append(a.doubts, warning(name, format, args...)) }
	ix := tree.Index(key)
	ids := ix.Number(rec)
	known, example := 0, -1 // keys are numbered by their first row
	for i, id := range ids {
		if int(id) == known {
			known++
		} else if example < 0 {
			example = i
		}
	}

	if example >= 0 && len(key) > 0 { // rows of a table without a key differ by the grid
		which := fmt.Sprintf("%d of %d rows repeat the key of a row before them, for example %s",
			len(ids)-known, len(ids), table.Describe(rec, example, key))
		seen := "first"
		switch tab := a.table; {
		case tab != nil && tab.Repeats == catalog.GiveUp:
			return fmt.Errorf(
				"nothing was written: %s; readers of %s give up on the whole table then. A dedupe before the export keeps one of "+
					"each",
				which,
				tab.Name,
			)
		case tab != nil && tab.Repeats == catalog.TakeLast:
			seen = "last"
		}

		warn("duplicates", "%s; readers see the %s of each. A dedupe before the export keeps one", which, seen)
	}

	if a.to.layout == tree.Flat || a.merged {
		for _, name := range []string{"framework", "version", "device"} {
			if seen := table.Distinct(rec, name); len(seen) > 1 {
				warn(name, "the rows are of several %ss (%s), and readers of one file take them for one", name,
					textutil.First(seen, 5, ", "))
			}
		}
	}

	for _, name := range table.Names(rec) {
		if text := rules.Spaced(rec, name); text != "" {
			warn("spaces", "%s", text)
		}
		seen := table.Distinct(rec, name)
		if at := slices.IndexFunc(seen, readsAsNumber); at >= 0 && a.to.format == CSV && !slices.Contains(identity, name) {
			warn(
				"numbers",
				"the column %s is text and has %q, which readers of CSV take for a number; Parquet keeps it text",
				name,
				seen[at],
			)
		}
	}

	if spec, err := systems.Load(a.to.place.System); err == nil && a.to.layout != tree.Flat {
		if col, err := table.Strings(rec, "device"); err == nil && col.Len() > 0 {
			if match, known := spec.MatchesDevice(col.Values[0]); known && !match {
				warn("device", "the rows were measured on %q, and the folder is of %s (%s)",
					cmp.Or(col.Values[0], "an unknown device"), spec.Name, spec.DeviceName())
			}
		}
	}

	return nil
}
