package gate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/cudaops/trace"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/stages/gate/results"
)

// mostWorkloads bounds the number of workloads that a result stores for reports.
const mostWorkloads = 500

// detail returns the comparison by workload for reports: the errors, a table of the workloads, and a table
// of each phase that the prediction divides into ops.
func (c *prediction) detail(s *subject, m *matched, key []string, errors results.Table,
	notes []string) *results.Prediction {
	out := &results.Prediction{Kind: "prediction", Predicted: c.address(), Notes: notes}
	if len(m.trees) > 0 {
		out.Notes = append(out.Notes, "predicted from "+m.trees[0])
	}

	var traces *tracedRows
	if len(c.refs) > 1 {
		out.Traces, traces = c.refs[1].Address, s.traced(key)
	}

	rows := min(s.rows(), mostWorkloads)
	var names, common []string // columns of the key: those that vary, and what all workloads have
	for _, k := range key {
		first, varies := textOf(s.rec, k, 0), rows == 1
		for row := range rows {
			varies = varies || textOf(s.rec, k, row) != first
		}
		if varies {
			names = append(names, k)
		} else {
			common = append(common, k+" "+first)
		}
	}
	if len(common) > 0 {
		out.Notes = append(out.Notes, "all with "+strings.Join(common, ", "))
	}

	workloads := results.Table{Heads: slices.Clone(names)}
	for row := range rows {
		var cells []any
		var name []string
		for _, k := range names {
			text := textOf(s.rec, k, row)
			cells, name = append(cells, text), append(name, k+" "+text)
		}
		workloads.Rows = append(workloads.Rows, cells)

		if at := m.theirs[row]; at >= 0 {
			phases := predictedPhases(s.reference(), at)
			traces.measure(s, row, phases)
			for _, p := range phases {
				out.Parts = append(out.Parts, p.table(strings.Join(name, ", ")))
			}
		}
	}

	for _, name := range c.Columns {
		measured, predicted := cells(s.rec, name, false), cells(s.reference(), name, false)
		workloads.Add(name+" measured (ms)", func(row int) any { return known(measured(row)) })
		workloads.Add("predicted (ms)", func(row int) any {
			if m.theirs[row] < 0 {
				return "not predicted"
			}
			return known(predicted(m.theirs[row]))
		})
		workloads.Add("error (%)", func(row int) any {
			if m.theirs[row] < 0 {
				return nil
			}
			return known(100 * (predicted(m.theirs[row])/measured(row) - 1))
		})
	}

	for _, x := range []struct{ name, head string }{{"server_queue", "server's queue (ms)"},
		{"server_prefill", "server's prefill (ms)"}, {"gpu_sm_clock_mhz", "SM clock (MHz)"},
		{"gpu_power_w", "power (W)"}} {
		if column(s.rec, x.name) != nil {
			read := cells(s.rec, x.name, x.name == "server_queue" || x.name == "server_prefill")
			workloads.Add(x.head, func(row int) any { return known(read(row)) })
		}
	}

	if more := s.rows() - rows; more > 0 {
		workloads.Note = textutil.Some(more, "more workload") + " not listed"
	}
	out.Tables = []results.Table{errors, workloads}
	return out
}

// known returns the value, or nil for NaN, which JSON does not have.
func known(v float64) any {
	if math.IsNaN(v) {
		return nil
	}
	return v
}

func textOf(rec arrow.Record, name string, row int) string {
	col := column(rec, name)
	if col == nil {
		return ""
	}
	return table.Text(col, row)
}

// cells returns a function that reads a column's measurements by row. It returns NaN for cells that are
// no positive finite number, or 0 if zeroOK is set, and for all rows if the column does not exist.
func cells(rec arrow.Record, name string, zeroOK bool) func(row int) float64 {
	c, _ := numbers(rec, name)
	return func(row int) float64 {
		if v, ok := c.At(row); ok && rules.Unusable(name, v, zeroOK) == "" {
			return v
		}
		return math.NaN()
	}
}

// phase is one phase of a workload: whole phases for static modes, single steps for the others.
type phase struct {
	name string
	// predicted and kernels are ms by class of ops. kernels is nil if they are unknown, and why gives the
	// reason.
	predicted, kernels map[string]float64
	why                string
	sources            map[string][]string // of predicted
	measured           float64             // ms, from outside; NaN if it is unknown
}

// classBlock replaces gemm and attention if a prediction has an op that contains both, such as a block
// of latent attention with its GEMMs: the two cannot be separated.
const classBlock = "gemm and attention"

// classes are in the order of tables.
var classes = []string{classBlock, trace.ClassGEMM, trace.ClassAttention, trace.ClassCommunication, trace.ClassOther}

// inBlock returns the class of a part of classBlock.
func inBlock(class string) string {
	if class == trace.ClassGEMM || class == trace.ClassAttention {
		return classBlock
	}
	return class
}

// total adds up the classes in their order, so that equal times have equal sums.
func total(by map[string]float64) (sum float64) {
	for _, class := range classes {
		sum += by[class]
	}
	return sum
}

// table divides the time of the phase into classes of kernels, the time outside of kernels, and the total.
func (p phase) table(workload string) results.Table {
	out := results.Table{Title: workload + ", " + p.name, Note: p.why, Texts: 1,
		Heads: []string{"op", "predicted (ms)", "measured (ms)", "difference (ms)"}}
	add := func(name string, predicted, measured float64) {
		base := predicted
		if math.IsNaN(base) {
			base = 0 // the prediction lists all its parts
		}
		out.Rows = append(out.Rows, []any{name, known(predicted), known(measured), known(measured - base)})
	}
	of := func(by map[string]float64, class string) float64 {
		if v, ok := by[class]; ok {
			return v
		}
		return math.NaN()
	}

	for _, class := range classes {
		predicted, measured := of(p.predicted, class), of(p.kernels, class)
		if known(predicted) != nil || known(measured) != nil {
			add(strings.TrimSpace(class+" "+strings.Join(p.sources[class], ", ")), predicted, measured)
		}
	}
	if p.kernels != nil && known(p.measured) != nil {
		add("no kernel: launches, host, scheduler", math.NaN(), p.measured-total(p.kernels))
	}
	add("in all", total(p.predicted), p.measured)
	return out
}

// predictedPhases returns the parts of a prediction as the predict module writes them: whole phases for
// static modes, single steps for the others.
func predictedPhases(rec arrow.Record, row int) []phase {
	var parts map[string]map[string]float64
	if json.Unmarshal([]byte(textOf(rec, "per_ops", row)), &parts) != nil {
		return nil
	}

	var source map[string]map[string]string
	_ = json.Unmarshal([]byte(textOf(rec, "per_ops_source", row)), &source) // optional; nil without sources

	steps := cells(rec, "osl", false)(row) - 1
	var out []phase
	for _, p := range []struct {
		name, ops string
		divide    float64
	}{{trace.Prefill, "context", 1}, {trace.Decode, "generation", steps}, {mixedStep, "mix_step", 1},
		{trace.Decode, "genonly_step", 1},
		{trace.Prefill, "prefill", 1}, {trace.Decode, "decode", steps}} {
		ops, from := parts[p.ops], source[p.ops]
		if p.ops == "context" && len(parts["encoder"]) > 0 { // images are encoded in the same step
			ops, from = both(parts["encoder"], ops), both(source["encoder"], from)
		}
		if len(ops) == 0 || !(p.divide > 0) {
			continue
		}
		out = append(out, predictedPhase(p.name, ops, from, p.divide))
	}

	return out
}

// both merges the ops of two phases, whose names differ.
func both[V any](a, b map[string]V) map[string]V {
	out := maps.Clone(b)
	if out == nil {
		out = map[string]V{}
	}
	maps.Copy(out, a)
	return out
}

// mixedStep is a step that contains prefill and decode. Traces of static steps do not have it.
const mixedStep = "mixed"

func predictedPhase(name string, ops map[string]float64, source map[string]string, divide float64) phase {
	p := phase{name: name, predicted: map[string]float64{}, sources: map[string][]string{}, measured: math.NaN(),
		why: "no trace of it"}
	names := slices.Sorted(maps.Keys(ops))
	blocks := slices.ContainsFunc(names, func(op string) bool { return classOfOp(op) == classBlock })
	for _, op := range names {
		class := classOfOp(op)
		if blocks {
			class = inBlock(class)
		}

		p.predicted[class] += ops[op] / divide
		if f := source[op]; f != "" && ops[op] > 0 && !slices.Contains(p.sources[class], f) {
			p.sources[class] = append(p.sources[class], f)
		}
	}

	if p.predicted[trace.ClassCommunication] == 0 {
		delete(p.predicted, trace.ClassCommunication)
	}
	return p
}

// classOfOp returns the class of an op by its aiconfigurator name.
func classOfOp(op string) string {
	op = strings.TrimSuffix(op, " (scaled)")
	switch {
	case strings.HasSuffix(op, "attention"):
		return trace.ClassAttention
	case strings.HasSuffix(op, "mla_block"):
		return classBlock
	case strings.HasSuffix(op, "gemm"), strings.HasSuffix(op, "moe"), strings.HasSuffix(op, "moe_overlap"):
		return trace.ClassGEMM // experts are GEMMs
	case strings.Contains(op, "allreduce") || strings.Contains(op, "_ar_") || strings.HasSuffix(op, "_ar") ||
		strings.HasSuffix(op, "p2p") || strings.Contains(op, "dispatch") || strings.Contains(op, "all_"):
		return trace.ClassCommunication
	}

	return trace.ClassOther
}

// tracedRows finds the trace of a workload by the key columns that the traces have.
type tracedRows struct {
	data *stage.Dataset
	rows []int                                 // by row of the subject; -1 without traces
	read map[int]map[string]map[string]float64 // ms by row, phase and class
	why  map[int]string
}

func (s *subject) traced(key []string) *tracedRows {
	if s.others[1] == nil || s.others[1].Table == nil {
		return nil
	}

	t := &tracedRows{data: s.others[1], read: map[int]map[string]map[string]float64{}, why: map[int]string{}}
	key = slices.DeleteFunc(slices.Clone(key), func(k string) bool { return column(t.data.Table, k) == nil })
	if len(key) == 0 {
		return nil
	}

	theirs := table.Keys(t.data.Table, key...)
	for _, name := range table.Keys(s.rec, key...) {
		t.rows = append(t.rows, slices.Index(theirs, name))
	}
	return t
}

// measure adds the kernel times from the trace of row i to its phases.
func (t *tracedRows) measure(s *subject, i int, phases []phase) {
	if t == nil || t.rows[i] < 0 {
		return
	}

	row := t.rows[i]
	if _, done := t.read[row]; !done {
		t.read[row], t.why[row] = t.kernels(s, row)
	}

	for n := range phases {
		p := &phases[n]
		seen, ok := t.read[row][p.name]
		if !ok {
			p.why = cmp.Or(t.why[row], p.why)
			continue
		}

		p.why, p.kernels = "", map[string]float64{}
		_, blocks := p.predicted[classBlock]
		for class, ms := range seen {
			if blocks {
				class = inBlock(class)
			}
			p.kernels[class] += ms
		}
		p.measured = cells(s.rec, phaseColumn[p.name], false)(i)
	}
}

// phaseColumn maps a phase of a static step to the column that measures it from outside.
var phaseColumn = map[string]string{trace.Prefill: "ttft", trace.Decode: "tpot"}

// kernels reads the traces of a row: per rank one of the prefill and one that contains decode steps. It
// returns mean times over the ranks in ms, of the whole prefill and of one decode step. The text gives
// the reason if a phase is missing.
func (t *tracedRows) kernels(s *subject, row int) (map[string]map[string]float64, string) {
	list, err := stage.Attachments(t.data.Table, row)
	if err != nil {
		return nil, err.Error()
	}

	sums := map[string]map[string]float64{}
	ranks := map[string]int{}

	// lacking has, by phase, a rank's trace without steps of that phase. empty describes a trace without
	// kernels.
	lacking, empty := map[string]string{}, ""
	for _, a := range list {
		phase, _, ok := strings.Cut(a.Name, "_trace_")
		if !ok || phaseColumn[phase] == "" {
			continue
		}

		raw, err := s.object(a.Digest)
		if err != nil {
			return nil, fmt.Sprintf("%s cannot be read: %v", a.Name, err)
		}

		seen, err := trace.ReadFrom(bytes.NewReader(raw), a.Name, trace.Options{})
		if err != nil {
			return nil, fmt.Sprintf("%s cannot be read: %v", a.Name, err)
		}

		before := ranks[phase]
		for _, device := range seen {
			if device.Incomplete { // its sums would cover only a part of the trace
				return nil, fmt.Sprintf("%s is not whole: %s", a.Name, device.Warning)
			}

			if device.Error != "" {
				empty = cmp.Or(empty, a.Name+": "+device.Error)
			}

			for _, p := range device.Phases {
				if p.Name != phase {
					continue
				}

				if ranks[phase]++; sums[phase] == nil {
					sums[phase] = map[string]float64{}
				}

				// An engine may split a batch into several steps before all of it decodes.
				times := 1.0
				if phase == trace.Decode {
					times = float64(p.Steps)
				}

				for _, c := range p.Classes {
					sums[phase][c.Class] += float64(c.SumNs) / 1e6 / times
				}
			}
		}

		if ranks[phase] == before {
			lacking[phase] = cmp.Or(lacking[phase], a.Name)
		}
	}

	why := ""
	for phase, by := range sums {
		for class := range by {
			by[class] /= float64(ranks[phase])
		}
	}
	for phase, name := range lacking {
		if sums[phase] != nil {
			delete(sums, phase)
			why = fmt.Sprintf("%s has no such steps, and traces of other ranks have", name)
		}
	}

	if len(sums) == 0 && why == "" {
		why = cmp.Or(empty, "its traces do not mark which steps are prefill and which decode")
	}
	return sums, why
}
