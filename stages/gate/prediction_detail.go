package gate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/cudaops/trace"
	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/gate/results"
)

// mostWorkloads bounds the number of workloads that a result stores for reports.
const mostWorkloads = 500

// detail returns the comparison by workload for reports.
func (c *prediction) detail(s *subject, m *matched, key []string, pairs map[string][]compared) *results.Prediction {
	out := &results.Prediction{Queue: c.queue(s, pairs), Kind: "prediction", Predicted: c.address(),
		Tables: m.trees, Key: key, Columns: []results.PredictionColumn{}, Workloads: []results.Workload{}}
	for _, name := range c.Columns {
		if all := pairs[name]; len(all) > 0 {
			out.Columns = append(out.Columns, c.summary(name, all))
		}
	}

	var kernels *tracedRows
	if len(c.refs) > 1 {
		out.Traces = c.refs[1].Address
		kernels = s.traced(key)
	}

	clock, power := cells(s.rec, "gpu_sm_clock_mhz", false), cells(s.rec, "gpu_power_w", false)
	queue, prefill := cells(s.rec, "server_queue", true), cells(s.rec, "server_prefill", true)

	var measured, predicted []func(row int) *float64
	for _, name := range c.Columns {
		measured = append(measured, cells(s.rec, name, false))
		predicted = append(predicted, cells(s.reference(), name, false))
	}

	for i, at := range m.theirs {
		if at >= 0 && column(s.reference(), "warning") != nil {
			if text := textOf(s.reference(), "warning", at); text != "" {
				out.Warned++
				if out.Warning == "" {
					out.Warning = text
				}
			}
		}

		if len(out.Workloads) == mostWorkloads {
			out.More++
			continue
		}

		w := results.Workload{ClockMHz: clock(i), PowerW: power(i), QueueMs: queue(i), PrefillMs: prefill(i)}
		for _, k := range key {
			w.Key = append(w.Key, textOf(s.rec, k, i))
		}

		for n, name := range c.Columns {
			v := results.Compared{Column: name, Measured: measured[n](i)}
			if at >= 0 {
				v.Predicted = predicted[n](at)
			}

			switch {
			case at < 0:
				v.Why = "not predicted"
			case v.Measured == nil:
				v.Why = "not measured"
			case v.Predicted == nil:
				v.Why = "no prediction"
			}

			w.Values = append(w.Values, v)
		}

		if at >= 0 {
			w.Phases = predictedPhases(s.reference(), at)
			kernels.measure(s, i, &w)
		}

		out.Workloads = append(out.Workloads, w)
	}

	return out
}

func textOf(rec arrow.Record, name string, row int) string {
	col := column(rec, name)
	if col == nil {
		return ""
	}
	return table.Text(col, row)
}

// cells returns a function that reads a column's measurements by row. It returns nil for cells that are
// no positive finite number, or 0 if zeroOK is set, and for all rows if the column does not exist.
func cells(rec arrow.Record, name string, zeroOK bool) func(row int) *float64 {
	c, err := numbers(rec, name)
	return func(row int) *float64 {
		if err != nil || unfit(c, row, zeroOK) != "" {
			return nil
		}
		return &c.Values[row]
	}
}

// predictedPhases returns the parts of a prediction as the predict module writes them: whole phases for
// static modes, single steps for the others.
func predictedPhases(rec arrow.Record, row int) []results.PhaseCompare {
	var parts map[string]map[string]float64
	if json.Unmarshal([]byte(textOf(rec, "per_ops", row)), &parts) != nil {
		return nil
	}

	var source map[string]map[string]string
	_ = json.Unmarshal([]byte(textOf(rec, "per_ops_source", row)), &source) // optional; nil without sources

	steps := 0.0
	if osl := cells(rec, "osl", false)(row); osl != nil {
		steps = *osl - 1
	}

	var out []results.PhaseCompare
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
		if len(ops) == 0 || p.divide <= 0 {
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

func predictedPhase(name string, ops map[string]float64, source map[string]string,
	divide float64) results.PhaseCompare {
	sums := map[string]float64{}
	from := map[string][]string{}
	total := 0.0

	whole := slices.ContainsFunc(slices.Collect(maps.Keys(ops)),
		func(op string) bool { return classOfOp(op) == classBlock })
	for _, op := range slices.Sorted(maps.Keys(ops)) {
		class := classOfOp(op)
		if whole && (class == trace.ClassGEMM || class == trace.ClassAttention) {
			class = classBlock
		}

		sums[class] += ops[op] / divide
		total += ops[op] / divide

		if f := source[op]; f != "" && ops[op] > 0 && !slices.Contains(from[class], f) {
			from[class] = append(from[class], f)
		}
	}

	p := results.PhaseCompare{Name: name, Predicted: &total, Why: "no trace of it"}
	for _, class := range []string{classBlock, trace.ClassGEMM, trace.ClassAttention, trace.ClassCommunication,
		trace.ClassOther} {
		if v, ok := sums[class]; ok && (v > 0 || class != trace.ClassCommunication) {
			p.Parts = append(p.Parts, results.ClassPart{Class: class, Predicted: &v, Source: strings.Join(from[class], ", ")})
		}
	}

	return p
}

// classBlock replaces gemm and attention if a prediction has an op that contains both, such as a block
// of latent attention with its GEMMs: the two cannot be separated.
const classBlock = "gemm and attention"

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
	rows []int                                   // by row of the subject; -1 without traces
	read map[int]map[string]results.PhaseCompare // by row; only Kernels and Parts are set
	why  map[int]string
}

func (s *subject) traced(key []string) *tracedRows {
	if len(s.others) < 2 || s.others[1] == nil || s.others[1].Table == nil {
		return nil
	}

	t := &tracedRows{data: s.others[1], read: map[int]map[string]results.PhaseCompare{}, why: map[int]string{}}
	key = slices.DeleteFunc(slices.Clone(key), func(k string) bool { return column(t.data.Table, k) == nil })
	if len(key) == 0 {
		return nil
	}

	name := func(rec arrow.Record, row int) string {
		var b strings.Builder
		for _, k := range key {
			fmt.Fprintf(&b, "%q ", textOf(rec, k, row))
		}
		return b.String()
	}

	at := map[string]int{}
	for row := range int(t.data.Table.NumRows()) {
		at[name(t.data.Table, row)] = row
	}
	for row := range s.rows() {
		traced, ok := at[name(s.rec, row)]
		if !ok {
			traced = -1
		}
		t.rows = append(t.rows, traced)
	}

	return t
}

// measure adds the kernel times from the trace of row i to the phases of w.
func (t *tracedRows) measure(s *subject, i int, w *results.Workload) {
	if t == nil || t.rows[i] < 0 {
		return
	}

	row := t.rows[i]

	if _, done := t.read[row]; !done {
		t.read[row], t.why[row] = t.kernels(s, row)
	}

	for n := range w.Phases {
		p := &w.Phases[n]
		seen, ok := t.read[row][p.Name]
		if !ok {
			if t.why[row] != "" {
				p.Why = t.why[row]
			}
			continue
		}

		p.Why, p.Kernels = "", seen.Kernels
		whole := slices.ContainsFunc(p.Parts, func(c results.ClassPart) bool { return c.Class == classBlock })
		for _, part := range seen.Parts {
			class := part.Class
			if whole && (class == trace.ClassGEMM || class == trace.ClassAttention) {
				class = classBlock
			}

			at := slices.IndexFunc(p.Parts, func(c results.ClassPart) bool { return c.Class == class })
			if at < 0 {
				p.Parts = append(p.Parts, results.ClassPart{Class: class})
				at = len(p.Parts) - 1
			}

			sum := *part.Measured
			if before := p.Parts[at].Measured; before != nil {
				sum += *before
			}

			p.Parts[at].Measured = &sum
		}

		for _, v := range w.Values {
			if v.Column == phaseColumn[p.Name] && v.Measured != nil {
				gap := *v.Measured - *p.Kernels
				p.Measured, p.Gap = v.Measured, &gap
			}
		}
	}
}

// phaseColumn maps a phase of a static step to the column that measures it from outside.
var phaseColumn = map[string]string{trace.Prefill: "ttft", trace.Decode: "tpot"}

// kernels reads the traces of a row: per rank one of the prefill and one that contains decode steps. It
// returns mean times over the ranks in ms, of the whole prefill and of one decode step. The text gives
// the reason if a phase is missing.
func (t *tracedRows) kernels(s *subject, row int) (map[string]results.PhaseCompare, string) {
	list, err := stage.Attachments(t.data.Table, row)
	if err != nil {
		return nil, err.Error()
	}

	if s.object == nil {
		return nil, "its traces cannot be read without a state folder"
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

		has := false
		for _, device := range seen {
			if device.Incomplete() { // its sums would cover only a part of the trace
				return nil, fmt.Sprintf("%s is not whole: %s", a.Name, device.Warning)
			}

			if device.Error != "" && empty == "" {
				empty = a.Name + ": " + device.Error
			}

			for _, p := range device.Phases {
				if p.Name != phase {
					continue
				}

				has = true

				if sums[phase] == nil {
					sums[phase] = map[string]float64{}
				}

				ranks[phase]++

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

		if !has && lacking[phase] == "" {
			lacking[phase] = a.Name
		}
	}

	out, why := map[string]results.PhaseCompare{}, ""
	for _, phase := range slices.Sorted(maps.Keys(sums)) {
		if name, ok := lacking[phase]; ok {
			why = fmt.Sprintf("%s has no such steps, and traces of other ranks have", name)
			continue
		}

		by, total := sums[phase], 0.0
		p := results.PhaseCompare{Name: phase}
		for _, class := range slices.Sorted(maps.Keys(by)) {
			v := by[class] / float64(ranks[phase])
			total += v
			p.Parts = append(p.Parts, results.ClassPart{Class: class, Measured: &v})
		}

		p.Kernels = &total
		out[phase] = p
	}

	if len(out) == 0 && why == "" {
		why = cmp.Or(empty, "its traces do not mark which steps are prefill and which decode")
	}

	return out, why
}
