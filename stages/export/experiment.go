package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/tidwall/gjson"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
	"aicplan/sink/experiment"
	"aicplan/sink/table"
	"aicplan/stages/dedupe"
	"aicplan/systems"
)

// Experiment is the layout of experiments with model servers: a folder for each
// cell with its traces, times and workload card, and over all of them a table and
// plots of how they scale.
const Experiment = "experiment"

// Files over all cells, and of one cell.
const (
	summaryFile = "results_summary.csv"
	plotName    = "scaling_analysis" // .svg and .png
	cardFile    = "workload_card.yaml"
	scriptFile  = "run.sh"
	latencyFile = "iterations.latency.json" // in the form of vllm bench latency
)

// experimentID is the column that names a cell's folder.
const experimentID = "experiment_id"

// experimentFiles are the attachments that a cell's folder gets.
var experimentFiles = regexp.MustCompile(
	`^(torch_et_\d+\.json|kineto_trace_\d+\.json(\.gz)?|nsys_\d+\.(nsys-rep|qdstrm)|timing_stats_\d+\.json|server\.log)$`,
)

// factsFile is the attachment with the facts of a cell's machine and server.
const factsFile = "experiment_facts.json"

// experiment stages the files of all cells.
func (a *attached) experiment(sets []*stage.Dataset) error {
	var cells []experiment.Cell
	for _, ds := range sets {
		for i, dir := range caseDirs(ds) {
			row := table.Row(ds.Table, i)
			id := text(row[experimentID])
			if id != "" {
				dir = fileutil.PlainName(id, "._-")
			}

			if !a.claim(dir) {
				return fmt.Errorf("two cells would be written to the folder %q; give them different values of %s, or export "+
					"them separately, with dir", dir, experimentID)
			}

			list, err := stage.Attachments(ds.Table, i)
			if err != nil {
				return err
			}

			var facts *cellFacts
			for _, file := range list {
				if err := a.cellFile(dir, file, &facts); err != nil {
					return fmt.Errorf("%s of row %d: %w", file.Name, i+1, err)
				}
			}

			if facts == nil {
				return fmt.Errorf("row %d of %s has no %s: only rows of runtimes of kind server have the files of an experiment",
					i+1, ds.Info.Op, factsFile)
			}

			card := a.config.card(row, facts, ds)
			err = errors.Join(a.put(path.Join(dir, cardFile), fileutil.Bytes(card.YAML())),
				a.put(path.Join(dir, scriptFile), fileutil.Bytes(facts.script(id))))
			if err != nil {
				return err
			}

			cell := experiment.CellOf(row)
			cell.Model = cmp.Or(cell.Model, facts.Model)
			cell.MFU = mfu(card, row, facts)
			cells = append(cells, cell)
		}

		cells = append(cells, lostCells(ds, cells)...)
	}

	svg, png, err := experiment.Scaling(cells)
	if err != nil {
		return err
	}

	a.Message = fmt.Sprintf("%s in %s, %d of them measured", textutil.Counted(len(cells), "cell"), a.folder, a.Counts.Rows)
	return errors.Join(a.put(summaryFile, fileutil.Bytes(experiment.Summary(cells))),
		a.put(plotName+".svg", fileutil.Bytes(svg)), a.put(plotName+".png", fileutil.Bytes(png)))
}

// cellFile stages an attachment of a cell, or reads the facts from it.
func (a *attached) cellFile(dir string, file stage.Attachment, facts **cellFacts) error {
	known := experimentFiles.MatchString(file.Name)
	if !known && file.Name != factsFile {
		return nil
	}

	data, err := a.rc.Store.GetBytes(file.Digest)
	if err != nil {
		return err
	}
	if !known {
		return json.Unmarshal(data, facts)
	}

	if file.Name == "timing_stats_0.json" {
		latency, err := latencies(data)
		if err == nil && latency != nil {
			err = a.put(path.Join(dir, latencyFile), fileutil.Bytes(latency))
		}
		if err != nil {
			return err
		}
	}

	return a.put(path.Join(dir, strings.TrimSuffix(file.Name, ".gz")), unpacked(file.Name, data))
}

// unpacked returns a function that writes an attachment, decompressed if its name ends with .gz. The tools
// that read traces of experiments look for files that are not compressed.
func unpacked(name string, data []byte) func(io.Writer) error {
	if path.Ext(name) != ".gz" {
		return fileutil.Bytes(data)
	}

	return func(w io.Writer) error {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return err
		}

		_, err = io.Copy(w, z)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil // a truncated trace: trace_error of its row reports it
		}
		return err
	}
}

// latencies returns the times of iterations, in seconds, in the form of vllm bench latency, or nil if there are
// none. An iteration is what that benchmark measures: a batch of requests from the first to the last token.
func latencies(stats []byte) ([]byte, error) {
	var s struct {
		Times []float64 `json:"iteration_times"`
		Avg   *float64  `json:"avg_iteration_time"`
	}
	if err := json.Unmarshal(stats, &s); err != nil || s.Avg == nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"avg_latency": *s.Avg, "latencies": s.Times})
}

// script returns a shell script that starts the server of a cell as it was started for the measurement.
func (f *cellFacts) script(id string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "#!/bin/sh\n# Starts the server of cell %s as it was started for the measurement.\n", id)
	for _, name := range slices.Sorted(maps.Keys(f.Env)) {
		fmt.Fprintf(&b, "export %s=%s\n", name, textutil.ShellWord(f.Env[name]))
	}

	b.WriteString("exec")
	for _, a := range f.Command {
		b.WriteString(" " + textutil.ShellWord(a))
	}
	b.WriteString("\n")
	return b.Bytes()
}

// cellFacts describe the machine and the server of a cell. The worker attaches them to its row.
type cellFacts struct {
	Driver   string            `json:"driver_version"`
	CUDA     int               `json:"cuda_version"` // newest version that the driver supports, as 13000
	Command  []string          `json:"command"`
	NCCL     string            `json:"nccl_version"`
	GPUs     []cellGPU         `json:"gpus"`
	NVLinks  int               `json:"nvlinks"`
	NVSwitch bool              `json:"nvswitch"`
	Version  string            `json:"framework_version"`
	Env      map[string]string `json:"env"`
	Model    string            `json:"model"`
	Traces   []string          `json:"traces"`
	Config   json.RawMessage   `json:"model_config"`
}

type cellGPU struct {
	Name   string `json:"name"`
	Memory int64  `json:"memory_bytes"`
}

// card fills the workload card of a cell.
func (c *Config) card(row map[string]any, f *cellFacts, ds *stage.Dataset) experiment.Card {
	out := experiment.Card{}
	const measured, configured = experiment.Measured, experiment.Configured
	set := func(source experiment.Origin, at string, v any) {
		if v != nil && v != "" {
			out[at] = experiment.Field{Value: v, Source: source}
		}
	}

	column := func(source experiment.Origin, at, name string) {
		if v, ok := row[name]; ok {
			set(source, at, v)
		}
	}

	set(configured, "workload.model.model_family", f.Model)

	m := modelConfig{gjson.ParseBytes(f.Config)}
	set(configured, "workload.model.precision", precisionWord(m.dtype()))
	if moe, known := m.mixes(); known {
		set(configured, "workload.model.moe", moe)
	}
	for at, v := range map[string]int{"num_layers": m.count("num_hidden_layers"),
		"num_heads": m.count("num_attention_heads"), "num_kv_heads": m.count("num_key_value_heads"),
		"head_dim": m.headDim(), "num_params": m.params(), "num_params_active": m.params(),
		"num_params_embedding": m.embedding()} {
		if v > 0 {
			set(configured, "workload.model.model_arch."+at, v)
		}
	}

	set(configured, "workload.model.precision", precisionWord(text(row["precision"])))
	column(measured, "workload.model.iteration", "iterations")
	column(configured, "workload.data.batch_size", "batch_size")
	column(configured, "workload.data.seq_len", "seq_len")
	column(measured, "workload.data.input_len", "input_length")
	column(measured, "workload.data.output_len", "output_length")

	if len(f.GPUs) > 0 {
		set(measured, "workload.hardware.xpu_spec.model", deviceWord(f.GPUs[0].Name))

		if m := f.GPUs[0].Memory; m > 0 {
			set(measured, "workload.hardware.xpu_spec.memory_gb", float64(m/1e7)/100)
		}

		set(measured, "workload.hardware.xpu_spec.count_per_node", len(f.GPUs))
		set(measured, "workload.hardware.driver", f.Driver)
		if f.CUDA > 0 {
			set(measured, "workload.hardware.driver_version", fmt.Sprintf("cuda_%d.%d", f.CUDA/1000, f.CUDA%1000/10))
		}
	}

	if f.NVLinks > 0 {
		topology := fmt.Sprintf("%d NVLinks a GPU", f.NVLinks)
		if f.NVSwitch {
			topology = "NVSwitch, " + topology
		}
		set(measured, "workload.hardware.network_topo.topology", topology)
		set(measured, "Model-executor.protocol_selection", []string{"nvlink"})
	}

	if spec := f.system(); spec != nil { // scale-out, then scale-up, in one direction
		set(configured, "workload.hardware.network_topo.bandwidth_gbps",
			[]float64{spec.Node.InterNodeBW * 8 / 1e9, spec.Node.IntraNodeBW * 8 / 1e9})
	}

	// The GPUs of a cell are its ranks: expert parallelism uses the same ranks.
	switch n, traced := int(asNumber(row["gpus"])), int(asNumber(row["traced_ranks"])); {
	case n > 0 && traced == n:
		set(measured, "workload.hardware.xpu_spec.total_count", n)
	case n > 0:
		set(configured, "workload.hardware.xpu_spec.total_count", n)
	}

	set(configured, "Model-executor.framework.name", strings.ToLower(ds.Info.Framework))
	if ds.Info.Version != "unknown" {
		set(measured, "Model-executor.framework.version", ds.Info.Version)
	}
	set(measured, "Model-executor.framework.version", f.Version)

	for at, name := range map[string]string{"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size",
		"dp_replicate": "data_parallel_size", "cp": "context_parallel_size", "ep": "expert_parallel_size"} {
		column(configured, "Model-executor.model_plan_parallelization."+at, name)
	}

	if f.NCCL != "" {
		set(measured, "Model-executor.communication_library.name", "NCCL")
		set(measured, "Model-executor.communication_library.version", f.NCCL)
	}

	env := map[string]string{}
	for name, v := range f.Env {
		if strings.HasPrefix(name, "NCCL_") || strings.HasPrefix(name, "NVSHMEM_") {
			env[name] = v
		}
	}

	if len(env) > 0 {
		set(configured, "Model-executor.communication_library.env", env)
	}

	var traces, others []string
	for _, kind := range f.Traces {
		if word := map[string]string{"kineto_trace": "json", "nsys": "nsys"}[kind]; word != "" {
			traces = append(traces, word)
		} else {
			others = append(others, kind)
		}
	}

	if len(traces) > 0 {
		set(measured, "metric_source.traces", traces)
	}
	if len(others) > 0 {
		set(measured, "metric_source.metrics_specific_trace", others)
	}

	own, _ := decoded(c.Cards).(map[string]any)
	cell, _ := own[text(row[experimentID])].(map[string]any)
	all, _ := decoded(c.Card).(map[string]any)
	for _, fields := range []map[string]any{all, cell} {
		for name, v := range fields {
			set(configured, cardPath(name), v)
		}
	}

	return out
}

// decoded returns a value of a plan as encoding/json decodes it, or nil for null.
func decoded(v cty.Value) (out any) {
	raw, err := json.Marshal(stage.Plain(v))
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		panic(fmt.Sprintf("export: a value of a plan as JSON: %v", err)) // Plain returns what encoding/json takes
	}
	return out
}

// mfu returns the floating-point operations of an iteration as a share of what the GPUs can do in its time, in
// %, or nil if a part of it is unknown. A token takes two operations for each active weight without the
// embedding, and 4 * layers * heads * head_dim for each token of its context.
func mfu(card experiment.Card, row map[string]any, f *cellFacts) *float64 {
	var n []float64
	for _, v := range []any{
		card["workload.model.model_arch.num_params_active"].Value,
		card["workload.model.model_arch.num_params_embedding"].Value,
		card["workload.model.model_arch.num_layers"].Value,
		card["workload.model.model_arch.num_heads"].Value,
		card["workload.model.model_arch.head_dim"].Value,
		row["batch_size"], row["input_length"], row["output_length"], row["iteration_wall_clock"], row["gpus"],
		f.peak(text(card["workload.model.precision"].Value)),
	} {
		x := asNumber(v)
		if x <= 0 {
			return nil
		}
		n = append(n, x)
	}

	weights, attention, batch := n[0]-n[1], n[2]*n[3]*n[4], n[5]
	tokens, seconds, gpus := n[6]+n[7]-1, n[8], n[9]
	flops := batch * (2*weights*tokens + 4*attention*tokens*(tokens+1)/2)
	return new(100 * flops / (seconds * gpus * n[10]))
}

// system returns the specification of the GPUs of a cell, or nil if it is unknown.
func (f *cellFacts) system() *systems.Spec {
	if len(f.GPUs) == 0 {
		return nil
	}
	name, _ := systems.ForDevice(f.GPUs[0].Name)
	spec, _ := systems.Load(name)
	return spec
}

// peak returns the operations per second of a GPU of the cell in a precision of workload cards, or 0.
func (f *cellFacts) peak(precision string) float64 {
	spec := f.system()
	if spec == nil {
		return 0
	}

	dtype := map[string]string{"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}[precision]
	flops, _ := spec.Peak(cmp.Or(dtype, precision))
	return flops
}

// precisionWord returns the word of workload cards for a data type of PyTorch.
func precisionWord(dtype string) string {
	switch dtype {
	case "bfloat16":
		return "bf16"
	case "float16", "half":
		return "fp16"
	case "float32", "float":
		return "fp32"
	}
	return dtype
}

// deviceWord returns the word of workload cards for a GPU: vendor and model, such as nvidia_h200.
func deviceWord(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == ' ' || r == '-' })
	return strings.Join(words[:min(2, len(words))], "_")
}

// checkCard returns the problems of the attributes card and cards.
func (c *Config) checkCard() (problems []string) {
	fields := func(where string, v any) {
		named, ok := v.(map[string]any)
		if !ok && v != nil {
			problems = append(problems, where+" is not an object of fields of a workload card.")
		}

		for _, name := range slices.Sorted(maps.Keys(named)) {
			if cardPath(name) == "" {
				problems = append(problems, fmt.Sprintf("%s has %q, which is no field of a workload card.%s", where, name,
					textutil.DidYouMean(name, experiment.Paths())))
			}
		}
	}

	fields("card", decoded(c.Card))
	cells, ok := decoded(c.Cards).(map[string]any)
	if !ok && decoded(c.Cards) != nil {
		problems = append(problems, "cards is not an object with an object of fields for each "+experimentID+".")
	}

	for _, id := range slices.Sorted(maps.Keys(cells)) {
		fields(fmt.Sprintf("cards[%q]", id), cells[id])
	}
	return problems
}

// cardPath is the path of a field that the plan names: its last part is enough.
func cardPath(name string) string {
	for _, p := range experiment.Paths() {
		if p == name || strings.HasSuffix(p, "."+name) {
			return p
		}
	}
	return ""
}

// lostCells are the planned cells without a row. The table lists them with the reason.
func lostCells(ds *stage.Dataset, measured []experiment.Cell) (out []experiment.Cell) {
	ledger := dedupe.LostCases(ds)
	model := ""
	if len(measured) > 0 {
		model = measured[0].Model
	}

	for i := range table.Len(ds.Planned) {
		row := table.Row(ds.Planned, i)
		lost, known := ledger[text(row["case_id"])]
		if !known {
			continue
		}

		c := experiment.CellOf(row)
		c.Error, c.Model = lost.Class, cmp.Or(c.Model, model)
		if line, _, _ := strings.Cut(lost.Message, "\n"); line != "" {
			c.Error += ": " + line
		}
		out = append(out, c)
	}
	return out
}

func asNumber(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	case int:
		return float64(v)
	}
	return 0
}

func text(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
