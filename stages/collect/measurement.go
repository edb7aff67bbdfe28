package collect

import (
	"encoding/json"
	"fmt"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/stages/collect/rows"
	"aicplan/stages/runtimes"
)

// Measurement describes how a collect stage measures. Other packages use it to repeat some of its cases
// or to import existing rows.
type Measurement struct {
	Cases   *grid.Cases
	Runtime *stage.Runtime
	Op      string // as the worker names it
	Pools   *runtimes.Pools

	config *Config
}

// MeasurementOf returns the measurement of a collect plan. It returns nil for other plans and if the
// cases are not known yet.
func MeasurementOf(p *stage.Plan) *Measurement {
	if p == nil {
		return nil
	}
	pl, ok := p.Private.(*planned)
	if !ok || pl.config == nil {
		return nil
	}
	c := pl.config
	return &Measurement{Cases: pl.cases, Runtime: c.runtime, Op: c.opName(pl.cases.Spec().Op), Pools: c.pools, config: c}
}

// Columns returns the columns that measured rows may have, apart from those that the worker chooses.
// Schema returns the metrics among them.
func (m *Measurement) Columns() []string {
	var out []string
	for _, f := range m.config.schema(m.Cases.Spec().Perf) {
		out = append(out, f.Name)
	}
	return out
}

// Schema returns the schema of the perf table that the rows belong to.
func (m *Measurement) Schema() *catalog.Schema {
	return m.config.tables.SchemaOf(m.config.perfTable(m.Cases.Spec().Perf))
}

// Settings returns the settings that the pool sends to workers for the stage's cases. The caller sets
// Log and Wake.
func (m *Measurement) Settings() (worker.Settings, error) {
	return m.config.workerSettings(m.Op)
}

// workerSettings returns the measure settings, the blocks and the op's binding. A Python worker gets the
// op at the start, so that an error that affects all cases is reported before the first case.
func (c *Config) workerSettings(op string) (worker.Settings, error) {
	raw, err := json.Marshal(c.settings)
	if err != nil {
		return worker.Settings{}, fmt.Errorf("measure settings: %w", err)
	}

	set := worker.Settings{Configure: worker.Configure{Measure: raw, Seed: c.settings.Seed}}
	if len(c.about().Measure) == 0 {
		set.Measure = nil
	}

	if set.Blocks, err = c.workerBlocks(); err != nil {
		return set, err
	}

	bind := c.workerBind()
	if bind == nil && c.about().NamesOps {
		bind = map[string]any{}
	}

	if bind != nil {
		if set.Ops, err = json.Marshal(map[string]any{op: bind}); err != nil {
			return set, fmt.Errorf("bind: %w", err)
		}
	}

	return set, nil
}

// Journal opens the journal for rows of other origins, such as imports, and returns it with its digest.
// The collect uses these rows for cases that it has not measured.
func (m *Measurement) Journal(store *checkpoint.Store, env *runtimes.Environment) (*checkpoint.Journal, string, error) {
	c, spec := m.config, m.Cases.Spec()
	ctx := c.origin(spec, env)
	digest, err := ctx.Digest()
	if err != nil {
		return nil, "", err
	}
	j, err := store.Journal(ctx)
	return j, digest, err
}

// MeasuredEntry encodes the journal payload of a unit with known rows: metrics and further columns,
// without the parameters of the case. at is the RFC 3339 time of the measurement, or "" if unknown.
func MeasuredEntry(measured []worker.Row, at string) ([]byte, error) {
	e := rows.Entry{Rows: measured, At: at, Points: 1}
	return e.Encode()
}

// perfTable returns the perf table of the rows: the grid's, or that of the runtime's kind if the grid
// has none.
func (c *Config) perfTable(ofGrid string) string {
	if ofGrid != "" {
		return ofGrid
	}
	return c.about().Table
}

// schema returns the columns that the rows of a grid may have.
func (c *Config) schema(ofGrid string) rows.Schema {
	return rows.SchemaOf(c.tables, c.perfTable(ofGrid), len(c.about().Measure) > 0)
}
