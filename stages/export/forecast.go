package export

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"aicplan/cudaops/load/aiperf"
	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/sink/tree"
	"aicplan/systems"
)

var _ stage.Forecaster = (*Config)(nil)

// first returns the forecast of the first input, which the export passes on.
func (c *Config) first(in stage.Forecasts) *stage.Forecast {
	if list := c.Inputs(); len(list) > 0 {
		return in(list[0].Ref)
	}
	return nil
}

// Forecast implements stage.Forecaster. The diagnostics are the errors that the
// export would otherwise return after the measurement.
func (c *Config) Forecast(at hcl.Range, in stage.Forecasts) (*stage.Forecast, hcl.Diagnostics) {
	return c.first(in), c.unusable(at, in)
}

func (c *Config) unusable(at hcl.Range, in stage.Forecasts) hcl.Diagnostics {
	var diags hcl.Diagnostics
	bad := stage.Errors(&diags, at)
	for _, input := range c.Inputs() {
		f := in(input.Ref)
		if f == nil {
			continue
		}

		if f.Cases {
			return hcl.Diagnostics{stage.NoRows(at)}
		}

		if c.attached() {
			continue // attachments are known when they are there
		}

		diags = append(diags, stage.MissingColumns(f, nil, at)...)
		sh, place, _ := c.destination(f.Info)
		t, known, flat := sh.table, sh.table != nil, !sh.strict
		switch {
		case !flat && !known:
			bad(
				"Table not known",
				"The layout %q takes perf tables only, and the op %q of %s has none; declare one with a table block (aicplan "+
					"help table), name one with \"table\", or use the layout \"flat\".",
				c.Layout,
				f.Info.Op,
				input.Ref.Address,
			)
		case flat && !known && c.File == "":
			bad(
				"File without a name",
				"The rows of %s belong to no perf table; give the file a name with \"file\".",
				input.Ref.Address,
			)
		case known && !f.Open:
			missing := slices.DeleteFunc(t.Required(),
				func(c string) bool { return c == "op_name" || slices.Contains(f.Columns, c) })
			if len(missing) > 0 {
				bad(
					"Columns of the table are missing",
					"%s needs the columns %s, and %s is going to have %s. Name the axes of the grid as the table does, or choose "+
						"another table.",
					t.Name,
					strings.Join(missing, ", "),
					input.Ref.Address,
					strings.Join(f.Info.Params, ", "),
				)
			}
		}

		if known && t.Family == "comm" && len(c.Reuse) > 0 {
			bad("Reuse below comm", "Tables below comm are never reused across versions; remove the reuse blocks.")
		}

		if _, ok := systems.Source(place.System); c.SystemSpec && !flat && !ok && place.System != "" {
			bad("No such system spec", "%s.", noSpec(place.System))
		}
	}

	return diags
}

// tableOf returns the name of the perf table of rows, or "". name is that of the block.
func tableOf(name string, info stage.Info) string {
	name = cmp.Or(name, info.Perf)
	if name == "" {
		if op, ok := catalog.LookupOp(info.Op); ok {
			name = op.Table
		}
	}
	return catalog.Stem(name)
}

// Target implements stage.FileWriter with the table file of the export. A part
// of the path that is not known yet is replaced by the address of the runtime
// that decides it, so two exports share a target only if they share the file.
func (c *Config) Target(in stage.Forecasts) string {
	switch c.Layout {
	case Experiment:
		return path.Join(c.Dir, summaryFile)
	case AIPerf:
		return path.Join(c.Dir, aiperf.SummaryJSON)
	case tree.Flat:
		return c.planned(in, false)
	}

	name := c.planned(in, false) // a database has each table in one format
	return strings.TrimSuffix(name, path.Ext(name))
}

// planned returns the name of the table's file as far as it is known when the plan is made, or "".
func (c *Config) planned(in stage.Forecasts, partial bool) string {
	var info stage.Info
	if f := c.first(in); f != nil {
		if info = f.Info; info.Version == "" && f.Origin != "" {
			info.Version = "(the version of " + f.Origin + ")"
		}
	}

	_, place, err := c.destination(info)
	if err != nil {
		return ""
	}
	t, err := c.target(tree.PlaceOf(place), partial)
	if err != nil {
		return "" // a part of its name is not known
	}
	return t.name
}
