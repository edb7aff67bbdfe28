package experiment

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// Origin is the source of a field of a card.
type Origin string

// The origins.
const (
	Measured   Origin = "measured"   // read from the machine, the server or its traces
	Configured Origin = "configured" // stated by the plan, the model's configuration or the system's specification
	Default    Origin = "default"    // the template's value
)

// Field is one field of a card: a value with its source. A nil value is null.
type Field struct {
	Value  any
	Source Origin
}

// Card is a workload card in ccl-bench's form. Its keys are the paths of fields, such as
// "workload.data.batch_size". Missing fields get the template's value and the source default.
type Card map[string]Field

// entry is a line of the template.
type entry struct {
	name  string
	value any // of a leaf
	sub   []entry
}

// template is the form with its default values.
var template = []entry{
	{name: "version", value: 1},
	{name: "description", value: ""},
	{name: "hf_url", value: ""},
	{name: "trace_url", value: ""},
	{name: "contributor", value: ""},
	{name: "contact", value: ""},
	{name: "workload", sub: []entry{
		{name: "model", sub: []entry{
			{
				name:  "phase",
				value: "inference",
			},
			{name: "moe", value: false},
			{name: "granularity", value: "model_fwd"},
			{name: "model_family", value: ""},
			{name: "precision", value: ""},
			{name: "epochs", value: nil},
			{name: "iteration", value: nil},
			{name: "model_arch", sub: []entry{
				{
					name:  "num_params",
					value: nil,
				},
				{name: "num_params_active", value: nil},
				{name: "num_params_embedding", value: nil},
				{
					name:  "num_layers",
					value: nil,
				},
				{name: "num_heads", value: nil},
				{name: "num_kv_heads", value: nil},
				{name: "head_dim", value: nil},
			}},
		}},
		{name: "data", sub: []entry{
			{
				name:  "batch_size",
				value: nil,
			},
			{name: "seq_len", value: nil},
			{name: "input_len", value: nil},
			{name: "output_len", value: nil},
			{name: "dataset", value: "synthetic"},
		}},
		{name: "hardware", sub: []entry{
			{
				name: "network_topo",
				sub:  []entry{{name: "topology", value: nil}, {name: "bandwidth_gbps", value: []any{nil, nil}}},
			},
			{name: "xpu_spec", sub: []entry{
				{
					name:  "type",
					value: "GPU",
				},
				{name: "model", value: nil},
				{name: "total_count", value: nil},
				{name: "count_per_node", value: nil},
				{name: "memory_gb", value: nil},
			}},
			{name: "driver_version", value: nil},
			{name: "driver", value: nil},
		}},
	}},
	{name: "Model-executor", sub: []entry{
		{
			name: "framework",
			sub: []entry{
				{name: "name", value: ""},
				{name: "version", value: nil},
				{name: "compiler_tool_selection", value: ""},
			},
		},
		{name: "model_plan_parallelization", sub: []entry{
			{
				name:  "dp_replicate",
				value: 1,
			},
			{name: "dp_shard", value: 1},
			{name: "tp", value: 1},
			{name: "pp", value: 1},
			{name: "pp_mb", value: nil},
			{name: "cp", value: 1},
			{name: "ep", value: 1},
		}},
		{
			name: "communication_library",
			sub: []entry{
				{name: "name", value: "NCCL"},
				{name: "version", value: nil},
				{name: "env", value: map[string]string{}},
			},
		},
		{name: "protocol_selection", value: []any{}},
	}},
	{
		name: "metric_source",
		sub:  []entry{{name: "traces", value: []any{}}, {name: "metrics_specific_trace", value: []any{}}},
	},
}

// Paths lists the paths of all fields, in their order.
func Paths() []string {
	var out []string
	var walk func(prefix string, list []entry)
	walk = func(prefix string, list []entry) {
		for _, e := range list {
			if e.sub != nil {
				walk(prefix+e.name+".", e.sub)
				continue
			}
			out = append(out, prefix+e.name)
		}
	}
	walk("", template)
	return out
}

// YAML writes the card: every field has a comment with its source.
func (c Card) YAML() ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	doc, err := c.node("", template)
	if err != nil {
		return nil, err
	}
	if err := e.Encode(doc); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

func (c Card) node(prefix string, list []entry) (*yaml.Node, error) {
	out := &yaml.Node{Kind: yaml.MappingNode}
	for _, e := range list {
		key := &yaml.Node{}
		key.SetString(e.name)
		if e.sub != nil {
			value, err := c.node(prefix+e.name+".", e.sub)
			if err != nil {
				return nil, err
			}
			out.Content = append(out.Content, key, value)
			continue
		}
		f, ok := c[prefix+e.name]
		if !ok {
			f = Field{e.value, Default}
		}
		value := &yaml.Node{}
		if err := value.Encode(f.Value); err != nil {
			return nil, err
		}
		if value.Kind == yaml.SequenceNode || value.Kind == yaml.MappingNode {
			value.Style = yaml.FlowStyle
		}
		value.LineComment = string(f.Source)
		out.Content = append(out.Content, key, value)
	}
	return out, nil
}
