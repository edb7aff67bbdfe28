// Package config implements the plan language: it parses plans and their modules, resolves
// variables, locals, systems, runtimes and references, expands for_each, and decodes stage bodies.
// No other package walks the bodies of plans.
//
// Evaluation is lazy: evaluating a reference first evaluates and caches its dependencies. A value
// that depends on itself is reported as a cycle with its full path. The outputs of a stage are
// unknown until SetResult is called.
package config

import (
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"aicplan/engine/stage"
)

// Config is a loaded plan: all stage instances with their dependencies. Methods are safe for
// concurrent use.
type Config struct {
	Dir       string // absolute folder of the plan
	Path      string // as given
	Instances []*Instance

	l    *loader
	root *scope
	mu   sync.Mutex
}

// Instance is one stage to plan and run.
type Instance struct {
	Address     string
	Kind        stage.Kind
	Name        string
	Key         string // key of for_each, or ""
	Description string
	Range       hcl.Range
	Deps        []string // addresses of the instances it refers to, sorted

	scope *scope
	decl  *blockDecl
	each  *eachValue
}

// Inputs are the variables that a command line sets.
type Inputs struct {
	Vars     []string `json:"vars,omitempty"` // NAME=VALUE, without those of sensitive variables
	VarFiles []string `json:"var_files,omitempty"`
}

// Output is a root output with its value. Parts that depend on stages are unknown before apply.
type Output struct {
	Name  string
	Value cty.Value
}

// lock begins a call: it waits for other calls. The result ends the call.
func (c *Config) lock() (unlock func()) {
	c.mu.Lock()
	return c.mu.Unlock
}

// Files returns the parsed files by name, including flags and expressions, for snippets in
// diagnostics.
func (c *Config) Files() map[string]*hcl.File {
	defer c.lock()()
	return c.l.src.all()
}

// Secrets returns the words and numbers in the values of sensitive variables. Callers remove them
// from text.
func (c *Config) Secrets() []string {
	defer c.lock()()
	return slices.Clone(c.l.secrets)
}

// Inputs returns the variables that the options of Load set.
func (c *Config) Inputs() Inputs {
	sensitive := c.Sensitive()
	return Inputs{VarFiles: c.l.opts.VarFiles, Vars: slices.DeleteFunc(slices.Clone(c.l.opts.Vars), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(sensitive, strings.TrimSpace(name))
	})}
}

// Sensitive returns the names of the sensitive variables of the root module.
func (c *Config) Sensitive() []string {
	defer c.lock()()
	var out []string
	if c.root == nil {
		return nil
	}

	for _, name := range c.root.decl.varOrder {
		if c.root.decl.variables[name].sensitive {
			out = append(out, name)
		}
	}

	return out
}

// Flag registers the value of a command-line flag and returns a range that diagnostics can show.
func (c *Config) Flag(name, value string) hcl.Range {
	defer c.lock()()
	return c.l.src.text(name, value)
}

// Instance returns the instance at address, or nil.
func (c *Config) Instance(address string) *Instance { return c.l.byAddr[address] }

// Addresses returns the addresses of all instances in plan order.
func (c *Config) Addresses() []string {
	out := make([]string, len(c.Instances))
	for i, in := range c.Instances {
		out[i] = in.Address
	}
	return out
}

// SetResult stores the outputs of a finished stage, so that expressions can use them.
func (c *Config) SetResult(address string, values map[string]cty.Value) {
	defer c.lock()()
	c.l.results[address] = values
	c.l.finished++
}

// ForgetResults makes the outputs of all stages unknown again.
func (c *Config) ForgetResults() {
	defer c.lock()()
	clear(c.l.results)
	c.l.finished++
}

// Decode evaluates the body of an instance with the values known so far. If an attribute depends on
// a stage that has not run, deferred is true and the stage is nil. Callers must then retry after
// that stage.
func (c *Config) Decode(in *Instance) (st stage.Stage, deferred bool, diags hcl.Diagnostics) {
	defer c.lock()()
	ev := &evaluator{scope: in.scope, each: in.each}
	if !in.Kind.BareNames {
		unknown, more := ev.hasUnknown(in.decl.body)
		if more.HasErrors() {
			return nil, false, unique(in.Locate(more))
		}
		if unknown {
			return nil, true, nil
		}
	}

	st = in.Kind.New()
	if d, ok := st.(stage.BodyDecoder); ok {
		diags = d.DecodeBody(in.decl.body, ev)
	} else {
		diags = stage.Decode(in.decl.body, ev, st)
	}

	if diags.HasErrors() {
		words := stage.Words(st)
		words[""] = append(words[""], metaArguments...)
		suggestNearest(diags, in.decl.body, "", words)
	} else {
		diags = append(diags, st.Check(&stage.CheckContext{Name: in.Name, Range: in.Range, Tables: c.l.tables})...)
	}

	return st, false, unique(in.Locate(diags))
}

// Outputs evaluates the root outputs.
func (c *Config) Outputs() ([]Output, hcl.Diagnostics) {
	defer c.lock()()

	var out []Output
	var diags hcl.Diagnostics
	for _, name := range c.root.decl.outOrder {
		o := c.root.decl.outputs[name]
		v, more := c.root.eval(o.value, nil)
		diags = append(diags, more...)
		out = append(out, Output{Name: name, Value: v})
	}

	return out, diags
}

// Eval evaluates one expression in the scope of the root module.
func (c *Config) Eval(text string) (cty.Value, hcl.Diagnostics) {
	defer c.lock()()
	at := c.l.src.text("the expression", text)
	expr, diags := expression(text, at.Filename)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	return c.root.eval(expr, nil)
}

// Judge returns an error if a check is not met in the scope of the root module, with additional names and functions.
func (c *Config) Judge(check Check, names map[string]cty.Value,
	functions map[string]function.Function) hcl.Diagnostics {
	defer c.lock()()

	bound := map[string]bool{}
	for name := range names {
		bound[name] = true
	}

	ctx, diags := c.root.context([]hcl.Expression{check.Condition, check.ErrorMessage}, nil, bound)
	if diags.HasErrors() {
		return diags
	}

	ctx = ctx.NewChild()
	ctx.Variables, ctx.Functions = names, functions
	return append(diags, check.judge(ctx, check.Condition.Range(), "Assertion failed", "")...)
}

// Variable describes one input of the plan.
type Variable struct {
	Name        string
	Type        cty.Type
	TypeText    string // as written in plans, with the defaults of optional attributes
	Description string
	Default     cty.Value // NilVal if the variable has no default
	Sensitive   bool
}

// Variables returns the root variables in plan order.
func (c *Config) Variables() []Variable {
	defer c.lock()()

	var out []Variable
	for _, name := range c.root.decl.varOrder {
		d := c.root.decl.variables[name]
		v := Variable{Name: name, Type: d.typ, TypeText: typeText(d.typ, d.defaults), Description: d.description}
		if d.hasDefault {
			v.Default = d.def
		}

		if v.Sensitive = d.sensitive; v.Sensitive && d.hasDefault {
			v.Default = d.def.Mark(stage.Sensitive)
		}
		if v.Sensitive {
			v.TypeText = TypeText(d.typ)
		}

		out = append(out, v)
	}

	return out
}

// Runtimes returns the runtimes of the plan and its modules, sorted by address. It omits runtimes
// that cannot be evaluated.
func (c *Config) Runtimes() []*stage.Runtime {
	defer c.lock()()
	var out []*stage.Runtime
	for _, s := range c.root.all() {
		for name, d := range s.decl.blocks["runtime"] {
			v, diags := s.value(ref{root: "runtime", name: name, rng: d.rng()}, nil)
			if diags.HasErrors() || !v.IsKnown() {
				continue
			}
			if rt, err := stage.RuntimeOf(v); err == nil {
				out = append(out, rt)
			}
		}
	}

	sort.Slice(out, func(i, j int) bool { return out[i].Address < out[j].Address })
	return out
}

// Modules returns the folders of the modules that the plan uses, sorted.
func (c *Config) Modules() []string {
	var out []string
	for path := range c.l.modules {
		out = append(out, display(path))
	}
	sort.Strings(out)
	return out
}

// Text returns the source text of an instance's block.
func (c *Config) Text(in *Instance) string {
	defer c.lock()()
	return c.l.src.snippet(in.decl.block.Range())
}

// Known returns the values that the body of an instance refers to, keyed by reference. It evaluates
// them as before a run, without stage results.
func (c *Config) Known(in *Instance) map[string]any {
	defer c.lock()()
	results := c.l.results
	c.l.results = map[string]map[string]cty.Value{}
	c.l.finished++
	defer func() {
		c.l.results = results
		c.l.finished++
	}()

	out := map[string]any{}
	for _, e := range bodyExpressions(in.decl.body) {
		for _, t := range e.Variables() {
			v, diags := in.scope.eval(&hclsyntax.ScopeTraversalExpr{Traversal: t, SrcRange: t.SourceRange()}, in.each)
			if diags.HasErrors() {
				continue // a name that the stage binds itself
			}
			out[stage.TraversalText(t)] = stage.Plain(v)
		}
	}

	return out
}
