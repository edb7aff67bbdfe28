package tree

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"aicplan/sink/base/fileutil"
)

// Model is the shapes of one model. Widths are of the whole model; what one
// rank runs follows from the degree of tensor parallelism.
type MatrixModel struct {
	Name string `yaml:"name" json:"name"`
	// TP lists the degrees of tensor parallelism to check; empty means the default ones.
	TP []int64 `yaml:"tp" json:"tp,omitempty"`
	// Dtypes are the formats of the products; rows of any one of them will do.
	// Empty means bfloat16.
	Dtypes []string `yaml:"dtypes" json:"dtypes,omitempty"`
	// Dense are layers of two products: hidden to inter and back.
	Dense []Dense `yaml:"dense" json:"dense,omitempty"`
	// Attention are the kinds of attention layers.
	Attention []Attention `yaml:"attention" json:"attention,omitempty"`
	MLA       []MLA       `yaml:"mla" json:"mla,omitempty"`
	MoE       []MoE       `yaml:"moe" json:"moe,omitempty"`
}

// Dense is a feed-forward layer.
type Dense struct {
	HiddenSize int64 `yaml:"hidden_size" json:"hidden_size"`
	InterSize  int64 `yaml:"inter_size" json:"inter_size"`
}

// Attention is one kind of attention layer. With a hidden size its projections
// are asked for too.
type Attention struct {
	HiddenSize int64 `yaml:"hidden_size" json:"hidden_size,omitempty"`
	NumHeads   int64 `yaml:"num_heads" json:"num_heads"`
	NumKVHeads int64 `yaml:"num_kv_heads" json:"num_kv_heads"`
	HeadDim    int64 `yaml:"head_dim" json:"head_dim"`
	Window     int64 `yaml:"window" json:"window,omitempty"`
}

// MLA is latent attention.
type MLA struct {
	NumHeads int64 `yaml:"num_heads" json:"num_heads"`
}

// MoE is a mixture-of-experts layer.
type MoE struct {
	HiddenSize int64    `yaml:"hidden_size" json:"hidden_size"`
	InterSize  int64    `yaml:"inter_size" json:"inter_size"`
	TopK       int64    `yaml:"topk" json:"topk"`
	NumExperts int64    `yaml:"num_experts" json:"num_experts"`
	Dtypes     []string `yaml:"dtypes" json:"dtypes,omitempty"`
}

// ReadModels reads a YAML or JSON file with a list "models". Unknown keys are
// errors.
func ReadModels(path string) ([]MatrixModel, error) {
	data, err := fileutil.ReadText(path)
	if err != nil {
		return nil, err
	}

	var file struct {
		Models []MatrixModel `yaml:"models"`
	}
	if err := decodeOne(data, &file, true); err != nil {
		return nil, fmt.Errorf("%s: %s", path, inWords(err))
	}
	if len(file.Models) == 0 {
		return nil, fmt.Errorf("%s has no models; it must contain a list \"models\"", path)
	}

	for i, m := range file.Models {
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("%s: model %d: %w", path, i+1, err)
		}
	}

	return file.Models, nil
}

// unknownKey is how the YAML reader reports one, in the words of Go.
var unknownKey = regexp.MustCompile(`field (\S+) not found in type (?:struct \{[^}]*\}|\S+)`)

func inWords(err error) string {
	te, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}
	lines := make([]string, len(te.Errors))
	for i, line := range te.Errors {
		lines[i] = unknownKey.ReplaceAllString(line, `there is no key "$1" here`)
	}

	return strings.Join(lines, "; ")
}

func (m MatrixModel) check() error {
	if m.Name == "" {
		return fmt.Errorf("it has no name")
	}
	if len(m.Dense)+len(m.Attention)+len(m.MLA)+len(m.MoE) == 0 {
		return fmt.Errorf("%s has no layers", m.Name)
	}

	for _, tp := range m.TP {
		if tp < 1 {
			return fmt.Errorf("%s: tp is %d", m.Name, tp)
		}
	}

	for _, a := range m.Attention {
		if a.NumHeads < 1 || a.NumKVHeads < 1 || a.HeadDim < 1 {
			return fmt.Errorf("%s: attention needs num_heads, num_kv_heads and head_dim", m.Name)
		}
	}

	return nil
}

// need is one op at one size.
type need struct {
	op string // as people call it: "attention prefill"
	// tables are alternatives.
	tables []string
	exact  map[string]int64
	// within are columns along which readers interpolate: the value must lie
	// between rows.
	within map[string]int64
	// any are columns of words of which one will do.
	any map[string][]string
	// mha asks for rows with as many key/value heads as query heads.
	mha bool
	// ranks asks for rows whose tensor and expert parallel ranks multiply to it.
	ranks int64
}

// needs lists the ops that one rank runs. An error means that the model cannot be split so.
func (m MatrixModel) needs(tp int64) ([]need, error) {
	dtypes := m.Dtypes
	if len(dtypes) == 0 {
		dtypes = []string{"bfloat16"}
	}

	var out []need
	add := func(op string, n need, tables ...string) {
		n.op, n.tables = op, tables
		out = append(out, n)
	}
	gemm := func(op string, n, k int64) {
		add(op, need{within: map[string]int64{"n": n, "k": k}, any: map[string][]string{"gemm_dtype": dtypes}}, "gemm_perf")
	}
	divide := func(what string, v int64) (int64, error) {
		if v%tp != 0 {
			return 0, fmt.Errorf("%s %d is not divisible by %d", what, v, tp)
		}

		return v / tp, nil
	}

	for _, d := range m.Dense {
		inter, err := divide("inter_size", d.InterSize)
		if err != nil {
			return nil, err
		}
		gemm("gate and up projection", 2*inter, d.HiddenSize)
		gemm("down projection", d.HiddenSize, inter)
	}

	for _, a := range m.Attention {
		heads, err := divide("num_heads", a.NumHeads)
		if err != nil {
			return nil, err
		}
		kv := int64(1) // key/value heads are copied when there are fewer than ranks
		if a.NumKVHeads > tp {
			if kv, err = divide("num_kv_heads", a.NumKVHeads); err != nil {
				return nil, err
			}
		}
		if a.HiddenSize > 0 {
			gemm("query, key and value projection", (heads+2*kv)*a.HeadDim, a.HiddenSize)
			gemm("output projection", a.HiddenSize, heads*a.HeadDim)
		}
		exact := map[string]int64{"head_dim": a.HeadDim, "window_size": a.Window}
		mha := heads == kv
		if !mha {
			exact["num_key_value_heads"] = kv
		}

		n := need{exact: exact, within: map[string]int64{"num_heads": heads}, mha: mha}
		add("attention prefill", n, "context_attention_perf")
		add("attention decode", n, "generation_attention_perf")
	}

	for _, l := range m.MLA {
		heads, err := divide("num_heads", l.NumHeads)
		if err != nil {
			return nil, err
		}
		n := need{exact: map[string]int64{"num_heads": heads}}
		add("latent attention prefill", n, "mla_context_module_perf", "context_mla_perf")
		add("latent attention decode", n, "mla_generation_module_perf", "generation_mla_perf")
	}

	for _, e := range m.MoE {
		formats := e.Dtypes
		if len(formats) == 0 {
			formats = dtypes
		}
		add("experts", need{ranks: tp, any: map[string][]string{"moe_dtype": formats}, exact: map[string]int64{
			"hidden_size": e.HiddenSize, "inter_size": e.InterSize, "topk": e.TopK, "num_experts": e.NumExperts,
		}}, "moe_perf")
	}

	if tp > 1 {
		add("all-reduce", need{exact: map[string]int64{"num_gpus": tp}}, "custom_allreduce_perf")
	}

	return out, nil
}

func (n need) String() string {
	var parts []string
	for _, c := range slices.Sorted(maps.Keys(n.any)) {
		parts = append(parts, c+" "+strings.Join(n.any[c], "|"))
	}

	for _, c := range slices.Sorted(maps.Keys(n.exact)) {
		parts = append(parts, fmt.Sprintf("%s=%d", c, n.exact[c]))
	}

	for _, c := range slices.Sorted(maps.Keys(n.within)) {
		parts = append(parts, fmt.Sprintf("%s~%d", c, n.within[c]))
	}
	if n.mha {
		parts = append(parts, "multi-head")
	}
	if n.ranks > 0 {
		parts = append(parts, fmt.Sprintf("%d ranks", n.ranks))
	}

	return n.op + " (" + strings.Join(parts, ", ") + ")"
}
