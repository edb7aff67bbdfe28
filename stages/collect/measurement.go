package collect

import (
	"encoding/json"
	"fmt"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/stages/runtimes"
)

// Measurement is how a collect stage measures: what others need to measure
// some of its cases again, or to put rows that are known already in their
// place.
type Measurement struct {
	Cases   *grid.Cases
	Runtime *stage.Runtime
	Op      string // as the worker knows it
	Pools   *runtimes.Pools

	config *Config
}

// MeasurementOf reads it from the plan of a collect stage; nil for other plans
// and where the cases are not known yet.
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

// Columns are the names of what measured rows may have in addition to the columns of
// the worker's own; the metrics among them are those of Schema.
func (m *Measurement) Columns() []string {
	var out []string
	for _, f := range m.config.schema(m.Cases.Spec().Perf).fields {
		out = append(out, f.name)
	}
	return out
}

// Schema is what the rows are measured for.
func (m *Measurement) Schema() *catalog.Schema {
	return catalog.SchemaOf(m.config.perfTable(m.Cases.Spec().Perf))
}

// Settings are what the pool tells workers about the stage's cases; Log and
// Wake are the caller's to set.
func (m *Measurement) Settings() (worker.Settings, error) {
	return m.config.workerSettings(m.Op)
}

// workerSettings name the measure settings and the op. A Python worker learns
// of the one op that comes, so that what is wrong with all of it is said before
// its first case.
func (c *Config) workerSettings(op string) (worker.Settings, error) {
	raw, err := json.Marshal(c.settings)
	if err != nil {
		return worker.Settings{}, fmt.Errorf("measure settings: %w", err)
	}
	set := worker.Settings{Measure: raw, Seed: c.settings.Seed}
	if len(c.kind().Measure) == 0 {
		set.Measure = nil
	}
	if set.Blocks, err = c.workerBlocks(); err != nil {
		return set, err
	}
	bind := c.workerBind()
	if bind == nil && c.kind().NamesOps {
		bind = map[string]any{}
	}
	if bind != nil {
		if set.Ops, err = json.Marshal(map[string]any{op: bind}); err != nil {
			return set, fmt.Errorf("bind: %w", err)
		}
	}
	return set, nil
}

// Journal opens the journal for rows of other origins than the collect's own
// measurements in an environment, and returns its name. The collect counts them
// wherever it has not measured itself.
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

// MeasuredEntry is the journal's payload of a unit whose rows are known: their
// metrics and further columns, without what the case says. at is the RFC 3339
// time of the measurement, "" when nobody knows.
func MeasuredEntry(rows []worker.Row, at string) ([]byte, error) {
	e := entry{Rows: rows, At: at, Points: 1}
	return e.encode()
}
