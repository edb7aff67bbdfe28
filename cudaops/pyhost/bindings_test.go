package pyhost_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ctyjson "github.com/zclconf/go-cty/cty/json"

	"aicplan/cudaops/worker"
	"aicplan/engine/config"
)

// upstream holds facts about the collectors: the positional parameters of their
// run functions, the versions that they name as compatible, and the columns of
// every op's grid.
type upstream struct {
	Modules map[string]struct {
		Compat    string              `json:"compat"`
		Functions map[string][]string `json:"functions"`
	} `json:"modules"`
	Columns map[string]map[string][]string `json:"columns"`
}

type binding struct {
	Module       string         `json:"module"`
	Run          string         `json:"run"`
	Getter       string         `json:"getter"`
	PerfFilename string         `json:"perf_filename"`
	Args         []any          `json:"args"`
	Match        map[string]any `json:"match"`
	Isolate      bool           `json:"isolate"`
	Env          map[string]any `json:"env"`
}

func facts(t *testing.T) upstream {
	t.Helper()
	data, err := os.ReadFile(testdata(t, "upstream.json"))
	if err != nil {
		t.Fatal(err)
	}
	var u upstream
	if err := json.Unmarshal(data, &u); err != nil {
		t.Fatal(err)
	}
	return u
}

// bindingsOf evaluates the bindings of one backend.
func bindingsOf(t *testing.T, backend string) (json.RawMessage, map[string]binding) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile("../../plans/modules/frameworks/frameworks.hcl")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "plan.hcl"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load(config.Options{Path: dir, Vars: []string{"backend=" + backend}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	v, diags := cfg.Eval("local.bindings")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	data, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]binding
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return data, out
}

var packages = map[string]string{"trtllm": "tensorrt_llm", "vllm": "vllm", "sglang": "sglang"}

// sample is a value for every column that grids have.
func sample(columns []string) m {
	words := map[string]any{
		"gemm_dtype": "fp8_block", "bmm_dtype": "fp8", "moe_dtype": "fp8_block", "mla_dtype": "bfloat16",
		"gemm_type":      "fp8_block",
		"kv_cache_dtype": "fp8", "attn_dtype": "bfloat16", "attn_backend": "TRTLLM", "distribution": "power_law_1.2",
		"model": "some/model", "model_name": "other/model", "phase": "context", "op": "pre",
		"architecture":     "SomeForCausalLM",
		"min_latency_mode": false, "use_eplb": true, "has_attention_sink": true, "scaling": nil, "attention_chunk_size": nil,
		"kernel_source": "fa3", "dsa_prefill_backend": "flashmla_kv",
	}
	out := m{}
	for i, c := range columns {
		if w, ok := words[c]; ok {
			out[c] = w
		} else {
			out[c] = 101 + i // distinct, so that a swap is seen
		}
	}
	return out
}

const standInHead = `import enum
import functools

from collector.helper import log_perf


class Bound(enum.IntEnum):
    """An enum of a framework's binding."""

    BF16 = 1
    FP8 = 2


class Dtype:
    """Prints as torch's dtypes do."""

    def __init__(self, name):
        self.name_ = name

    def __str__(self):
        return "torch." + self.name_


def with_exit_stack(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        return func("the stack", *args, **kwargs)

    return wrapper


def foreign(word):
    return Bound[word.upper()] if word.upper() in Bound.__members__ else Dtype(word)


`

// standIn writes a module with the names and the signatures of an upstream one. Its functions log their arguments
// by name; its getters list decoys and the one case that the sample should find.
func standIn(t *testing.T, root, module string, functions map[string][]string, getters map[string][2]any) {
	t.Helper()
	var b strings.Builder
	b.WriteString(standInHead)
	for name, params := range functions {
		if params[0] == "exit_stack" {
			b.WriteString("\n@with_exit_stack")
		}
		fmt.Fprintf(&b, "\ndef %s(%s, *, perf_filename, device=\"cuda:0\"):\n", name, strings.Join(params, "=None, ")+"=None")
		fmt.Fprintf(&b, "    got = {%s}\n", strings.Join(quoted(params), ", "))
		b.WriteString("    row = {'arg_' + k: v if isinstance(v, (bool, int, float, str, type(None))) else str(v) for k, v " +
			"in got.items()}\n")
		b.WriteString("    log_perf(item_list=[dict(row, latency=1.0)], framework='x', version='', device_name='', " +
			"op_name='x', kernel_source='x', perf_filename=perf_filename)\n")
	}
	for name, items := range getters {
		fmt.Fprintf(&b, "\n\ndef %s():\n    return [%s, {'id': 'x', 'params': %s}]\n", name, items[0], items[1])
	}
	path := filepath.Join(root, filepath.Join(strings.Split(module, ".")...)+".py")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func quoted(names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, fmt.Sprintf("'%s': %s", n, n))
	}
	return out
}

// listed is a getter's item for a binding: the sample's values where the binding
// looks, in the collector's own terms, and other values elsewhere.
func listed(b binding, params []string, s m, decoy bool) string {
	item := make([]string, len(params))
	for i := range item {
		item[i] = fmt.Sprintf("'any %d'", i)
	}
	for i, column := range slices.Sorted(maps.Keys(b.Match)) {
		at, lit := matched(b.Match[column], s[column])
		if decoy && i == 0 {
			lit = "-1"
		}
		item[slices.Index(params, at)] = lit
	}
	return "[" + strings.Join(item, ", ") + "]"
}

// matched is the parameter that a match looks at, and the sample's value there
// as a Python literal.
func matched(spec, value any) (param, literal string) {
	o, ok := spec.(map[string]any)
	if !ok {
		return fmt.Sprint(spec), fmt.Sprintf("%#v", value)
	}
	for theirs, ours := range o["map"].(map[string]any) {
		if ours == value {
			return o["param"].(string), fmt.Sprintf("foreign(%q)", theirs)
		}
	}
	panic(fmt.Sprintf("the map %v has no %v", o["map"], value))
}

func TestBindingsFitTheCollectors(t *testing.T) {
	u := facts(t)
	for backend, columns := range u.Columns {
		t.Run(backend, func(t *testing.T) {
			data, bindings := bindingsOf(t, backend)
			root := t.TempDir()
			getters := map[string]map[string][2]any{}
			for op, b := range bindings {
				params := u.params(t, op, b)
				if len(b.Args) > len(params) {
					t.Errorf("%s: %d arguments for %d parameters", op, len(b.Args), len(params))
				}
				if b.Match == nil {
					continue
				}
				if getters[b.Module] == nil {
					getters[b.Module] = map[string][2]any{}
				}
				s := sample(columns[op])
				getters[b.Module][b.Getter] = [2]any{listed(b, params, s, true), listed(b, params, s, false)}
			}
			for module, mod := range u.Modules {
				standIn(t, root, module, mod.Functions, getters[module])
			}
			helper, err := os.ReadFile(testdata(t, "checkout", "collector", "helper.py"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, "collector", "helper.py"), helper, 0o644); err != nil {
				t.Fatal(err)
			}
			init := worker.Init{Ops: data, Options: hostSettings{Package: packages[backend],
				CollectorRoot: root}.Options(nil)}
			env := "PYTHONPATH=" + testdata(t, "frameworks")
			c, hello := start(t, init, env)
			if hello.Error != nil {
				t.Fatal(hello.Error.Message)
			}
			last := ""
			for i, op := range slices.Sorted(maps.Keys(columns)) {
				b, ok := bindings[op]
				if !ok {
					t.Errorf("op %s is not bound", op)
					continue
				}
				environment := fmt.Sprint(b.Env)
				if i > 0 && (b.Isolate || environment != last) {
					c.shutdown()
					c, _ = start(t, init, env)
				}
				last = environment
				checkArguments(t, c, op, b, u.params(t, op, b), sample(columns[op]))
			}
		})
	}
}

// params are the positional parameters of a binding's function that callers fill.
func (u upstream) params(t *testing.T, op string, b binding) []string {
	t.Helper()
	params, ok := u.Modules[b.Module].Functions[b.Run]
	if !ok {
		t.Fatalf("%s: there is no %s in %s", op, b.Run, b.Module)
	}
	return slices.DeleteFunc(slices.Clone(params), func(p string) bool { return p == "exit_stack" })
}

// checkArguments runs the sample and looks at what the function was given.
func checkArguments(t *testing.T, c *client, op string, b binding, params []string, s m) {
	t.Helper()
	var sweep any
	if slices.ContainsFunc(b.Args, func(a any) bool { o, ok := a.(map[string]any); return ok && o["sweep"] != nil }) {
		sweep = []m{{"num_tokens": 1}, {"num_tokens": 64}}
	}
	a := c.run(op, s, sweep)
	if a.Failure != nil {
		t.Errorf("%s: %s", op, a.Failure.Message)
		return
	}
	row := a.Rows[0]
	for column, spec := range b.Match {
		param, _ := matched(spec, s[column])
		if got := fmt.Sprint(row["arg_"+param]); got == "-1" || strings.HasPrefix(got, "any") {
			t.Errorf("%s: the wrong item was found: %s = %s", op, param, got)
		}
	}
	for i := range b.Args {
		want, known := meaning(op, params[i], s)
		if !known {
			t.Errorf("%s: the meaning of %s is missing", op, params[i])
		} else if got := row["arg_"+params[i]]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %s is %v, want %v", op, params[i], got, want)
		}
	}
	if b.Match == nil && len(b.Args) == 0 {
		t.Errorf("%s: neither args nor match", op)
	}
}

// meaning is what a parameter of a collector must be for a case.
func meaning(op, param string, s m) (any, bool) {
	context := strings.Contains(op, "context") || op == "encoder_attention"
	switch param {
	case "input_len", "seq_len":
		if context {
			return s["isl"], true
		}
		return s["step"], true
	case "prefix_len":
		return s["step"], context
	case "past_kv":
		return s["step"], true
	case "kernel": // dsv4_hca_attn_module
		return strings.TrimSuffix(op[5:], "_module"), true
	case "tp_size":
		if _, ok := s["tp_size"]; !ok {
			return 1, strings.HasPrefix(op, "dsv4_") // one rank has all heads
		}
	case "is_context_phase":
		return context, true
	case "use_fp8_kv_cache":
		return s["kv_cache_dtype"] == "fp8", true
	case "use_fp8_context_fmha":
		return context && s["attn_dtype"] == "fp8", true
	case "attn_type":
		return op[:3], true
	case "attn_kind":
		return op[5:8], true
	case "num_tokens_lists":
		return "[1, 64]", true
	case "distributed":
		return "power_law", true
	case "power_law_alpha":
		return 1.2, true
	case "moe_kernel":
		return "cutlass", true
	case "accurate_wideep_simulation":
		return true, true
	case "num_warmups":
		return 2, true
	case "num_runs":
		return 10, true
	case "min_latency_mode":
		return false, true
	case "attn_backend_name":
		if v, ok := s["attn_backend"]; ok {
			return v, true
		}
		return s["kernel_source"], true
	case "batch_size":
		if op == "gemm" {
			return s["m"], true
		}
	case "gemm_type":
		if op == "gemm" {
			return s["gemm_dtype"], true
		}
	}
	other := map[string]string{
		"N": "n", "K": "k", "num_kv_heads": "num_key_value_heads", "attention_window_size": "window_size",
		"compute_dtype": "mla_dtype", "model_path": "model", "moe_type": "moe_dtype", "dtype": "bmm_dtype",
	}
	if c, ok := other[param]; ok {
		param = c
	}
	v, ok := s[param]
	return v, ok
}
