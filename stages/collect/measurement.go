package collect

import (
	"context"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/stages/collect/rows"
	"aicplan/stages/runtimes"
)

// Measurement describes how a collect stage measures. Plan hands it to Run. Other packages use it to repeat some of the
// cases or to import existing rows.
type Measurement struct {
	Cases   *grid.Cases
	Runtime *stage.Runtime

	info   stage.Info // of the grid
	config *Config
}

// MeasurementOf returns the measurement of a collect plan. It returns nil for other plans and if the
// cases are not known yet.
func MeasurementOf(p *stage.Plan) *Measurement {
	if p == nil {
		return nil
	}
	m, _ := p.Private.(*Measurement)
	return m
}

// op returns the op as workers name it.
func (m *Measurement) op() string { return m.config.opName(m.Cases.Spec.Op) }

// Columns returns the columns that measured rows may have, apart from those that the worker chooses.
// Schema returns the metrics among them.
func (m *Measurement) Columns() []string {
	var out []string
	for _, f := range m.config.schema(m.Cases.Spec.Perf, m.Cases.Spec.Op) {
		out = append(out, f.Name)
	}
	return out
}

// Schema returns the schema of the perf table that the rows belong to.
func (m *Measurement) Schema() *catalog.Schema {
	return m.config.tables.SchemaOf(m.config.perfTable(m.Cases.Spec.Perf))
}

// Start starts the collect's workers for n cases. It returns an outcome if the runtime is not available here, and
// context.Canceled if the user stops the run.
func (m *Measurement) Start(ctx context.Context, rc *stage.RunContext, n int) (*Workers, *stage.Outcome, error) {
	log := func(slot, level, text string) {
		if level == "warn" || level == "error" {
			rc.Events.Message(rc.Address, level, slot+": "+text)
		}
	}
	return m.config.startWorkers(ctx, rc, worker.Settings{Log: log}, n, m.op(), "")
}

// Points returns the points of a case, or nil if it does not sweep.
func (m *Measurement) Points(no int) []map[string]any {
	if s := newSweep(m.Cases.Sweep(no)); s != nil {
		return s.values
	}
	return nil
}

// Case returns a case as a worker gets it, with the points of its sweep that have these indexes.
func (m *Measurement) Case(no int, points []int) worker.Case {
	return worker.Case{ID: m.Cases.ID(no), Op: m.op(), Params: m.Cases.ParamsJSON(no), Attempt: 1,
		Sweep: newSweep(m.Cases.Sweep(no)).json(points)}
}

// Contradicts reports whether a row has parameters of another case than this one.
func (m *Measurement) Contradicts(no int, row worker.Row) bool {
	check := rows.Check{Param: paramsOf(m.Cases, no), Sweep: m.Cases.SweepColumns()}
	return check.Contradicts(row)
}

// Journal opens the journal for rows of other origins, such as imports, and returns it with its digest.
// The collect uses these rows for cases that it has not measured.
func (m *Measurement) Journal(store *checkpoint.Store, env *runtimes.Environment) (*checkpoint.Journal, string, error) {
	c, spec := m.config, m.Cases.Spec
	ctx := c.origin(spec, env)
	digest, err := ctx.Digest()
	if err != nil {
		return nil, "", err
	}
	j, err := store.Journal(ctx)
	return j, digest, err
}

// MeasuredEntry encodes the journal payload of a unit with known rows: metrics and further columns,
// without the parameters of the case. The time of the measurement is unknown.
func MeasuredEntry(measured []worker.Row) ([]byte, error) {
	e := rows.Entry{Rows: measured, Points: 1}
	return e.Encode()
}

// perfTable returns the perf table of the rows: the grid's, or that of the runtime's kind if the grid
// has none.
func (c *Config) perfTable(ofGrid string) string {
	if ofGrid != "" {
		return ofGrid
	}
	return c.kind().Table
}

// schema returns the columns that the rows of a grid may have.
func (c *Config) schema(ofGrid, op string) rows.Schema {
	perf := c.perfTable(ofGrid)
	s := rows.SchemaOf(c.tables, perf, len(c.kind().Measure) > 0)
	if o, ok := catalog.LookupOp(op); ok && perf == "" {
		// The rows may belong to the table of the op, although the grid does not name it.
		if t, ok := catalog.Lookup(o.Table); ok && t.ZeroLegal {
			for i := range s {
				s[i].Positive = false
			}
		}
	}
	return s
}
