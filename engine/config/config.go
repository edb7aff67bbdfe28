// Package config is the plan language: it parses plans and their modules,
// resolves variables, locals, systems, runtimes and references, expands
// for_each, and decodes stage bodies. It is the only place that walks the
// bodies of plans.
//
// Evaluation is by need: asking for the value of a reference evaluates what it
// depends on first and remembers it, and a value that needs itself is a cycle
// whose whole path is reported. What a stage puts out is unknown until
// SetResult names it.
package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"aicplan/engine/stage"
	"aicplan/systems"
)

// Options say what to load and with which values.
type Options struct {
	Path     string                // plan file, or a folder of plan files
	Kinds    map[string]stage.Kind // every known stage kind by name
	Runtimes []stage.RuntimeKind   // every known kind of runtime
	Services []stage.ServiceKind   // every known kind of service block
	Version  string                // of this aicplan, for required_version
	Vars     []string              // NAME=VALUE as given with -var, in order
	VarFiles []string              // in order
	Environ  []string              // as os.Environ
	// Shared says that flags and environment were meant for another plan as well:
	// values for variables that this one does not have are ignored.
	Shared  bool
	Systems func(name, file string) (*systems.Spec, error)
	// Given are values of variables as a file has them; they override all others.
	Given map[string]*hclsyntax.Attribute
	// Optional are such values for the variables that the plan has; Given overrides
	// them.
	Optional map[string]*hclsyntax.Attribute
	// Inline is the text of the plan where it is a block of the file at Path; nil
	// where the file is the plan.
	Inline *hclsyntax.Body
	// Sources are further files by name whose lines diagnostics may show.
	Sources map[string]*hcl.File
}

// Config is a loaded plan: every stage instance with its dependencies.
type Config struct {
	Dir       string // absolute folder of the plan
	Path      string // as given
	Instances []*Instance

	l      *loader
	root   *scope
	byAddr map[string]*Instance
	mu     sync.Mutex
}

// Instance is one stage to plan and run.
type Instance struct {
	Address     string
	Kind        stage.Kind
	Name        string
	Key         string // of for_each; "" without
	Description string
	Range       hcl.Range
	Deps        []string // addresses of the instances it refers to, in order

	scope *scope
	decl  *blockDecl
	each  *eachValue
}

// Output is a root output with its value; unknown parts are known after apply.
type Output struct {
	Name        string
	Description string
	Value       cty.Value
}

type loader struct {
	opts      Options
	kinds     map[string]stage.Kind
	src       *sources
	functions map[string]function.Function
	rootVars  map[string]givenValue
	modules   map[string]*moduleDecl // by absolute path
	exprs     map[hclsyntax.Node]exprParts
	results   map[string]map[string]cty.Value
	finished  int // stages whose results are known
	busy      []frame
	marks     bool     // there are sensitive values
	secrets   []string // words and numbers in them; defaults are in the plan's text anyway
	failures  int      // values that could not be evaluated; what is unknown may be so because of them
	// unreadable is set when a file has syntax errors.
	unreadable bool
}

// Load parses the plan, evaluates what is known before a run, expands for_each
// and modules, and traces the dependencies between stage instances. The
// returned Config is nil only when nothing could be read; with error
// diagnostics it serves for showing snippets.
func Load(opts Options) (*Config, hcl.Diagnostics) {
	c, diags := load(opts)
	return c, unique(diags)
}

func load(opts Options) (*Config, hcl.Diagnostics) {
	abs, err := filepath.Abs(opts.Path)
	if err != nil {
		return nil, hcl.Diagnostics{fileDiag(opts.Path, "Cannot read the plan", err.Error())}
	}
	l := &loader{
		opts: opts, kinds: opts.Kinds, src: newSources(filepath.Dir(abs)), functions: Functions(),
		modules: map[string]*moduleDecl{}, exprs: map[hclsyntax.Node]exprParts{}, results: map[string]map[string]cty.Value{},
	}
	maps.Copy(l.src.flags, opts.Sources)
	c := &Config{Path: opts.Path, l: l, byAddr: map[string]*Instance{}}
	decl, diags := l.loadRoot(abs)
	if decl == nil {
		return c, diags
	}
	c.Dir = decl.dir
	l.modules[abs] = decl
	var more hcl.Diagnostics
	l.rootVars, more = l.readVariables(decl)
	diags = append(diags, more...)
	if l.unreadable {
		// Names that are missing because their file did not parse would be
		// reported again and again.
		return c, diags
	}
	c.root = newScope(l, decl, nil, nil, nil, "", abs)
	diags = append(diags, c.root.evaluateAll()...)
	c.Instances = c.root.allInstances()
	var sound []*Instance
	for _, in := range c.Instances {
		c.byAddr[in.Address] = in
		more := in.checkReferences()
		diags = append(diags, WithAddress(more, in.Address)...)
		if !more.HasErrors() {
			sound = append(sound, in)
		}
	}
	if diags.HasErrors() {
		more := c.decodeErrors(sound)
		if wrongVariable(diags) {
			// What uses the value is unknown everywhere, and no mistake of its own.
			more = slices.DeleteFunc(more, func(d *hcl.Diagnostic) bool { return slices.Contains(followUps, d.Summary) })
		}
		return c, append(diags, more...)
	}
	diags = append(diags, c.checkMoved()...)
	for _, in := range c.Instances {
		more := in.trace()
		diags = append(diags, WithAddress(more, in.Address)...)
	}
	return c, diags
}

// followUps are what grids say of values that are not known.
var followUps = []string{"Value not known at plan time", "Unknown loop"}

// wrongVariable says whether a variable has no value that fits it.
func wrongVariable(diags hcl.Diagnostics) bool {
	return slices.ContainsFunc(diags, func(d *hcl.Diagnostic) bool {
		return slices.Contains([]string{badValue, invalidValue, noValue}, d.Summary)
	})
}

// decodeErrors finds what else is wrong in instances whose references lead
// somewhere, for a load that has failed already.
func (c *Config) decodeErrors(sound []*Instance) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, in := range sound {
		if in.scope.usesFailed(in) {
			continue
		}
		_, _, more := c.Decode(in)
		diags = append(diags, more...)
	}
	return diags
}

// Files returns the parsed files by name, for snippets in diagnostics; flags and
// expressions with them.
func (c *Config) Files() map[string]*hcl.File {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.l.src.all()
}

// Secrets are the words and numbers in the values of sensitive variables, for
// taking them out of text.
func (c *Config) Secrets() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.l.secrets)
}

// Sensitive lists the sensitive variables of the plan itself.
func (c *Config) Sensitive() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
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

// Flag gives a command-line flag's value a place that diagnostics can show.
func (c *Config) Flag(name, value string) hcl.Range {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.l.src.text(name, value)
}

// Instance returns the instance at address, or nil.
func (c *Config) Instance(address string) *Instance { return c.byAddr[address] }

// Addresses lists all instances in the order of the plan.
func (c *Config) Addresses() []string {
	out := make([]string, len(c.Instances))
	for i, in := range c.Instances {
		out[i] = in.Address
	}
	return out
}

// SetResult makes the outputs of a finished stage known to expressions.
func (c *Config) SetResult(address string, values map[string]cty.Value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.l.results[address] = values
	c.l.finished++
}

// ForgetResults makes the outputs of all stages unknown again.
func (c *Config) ForgetResults() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.l.results)
	c.l.finished++
}

// Decode evaluates the body of an instance with what is known. Deferred is
// true when an attribute depends on a stage that has not run: the stage is nil
// then and Decode must be called again later.
func (c *Config) Decode(in *Instance) (st stage.Stage, deferred bool, diags hcl.Diagnostics) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
		diags = stage.Decode(in.decl.body, ev, st, nil)
	}
	if !diags.HasErrors() {
		diags = append(diags, st.Check(&stage.CheckContext{Address: in.Address, Range: in.Range})...)
	}
	return st, false, unique(in.Locate(diags))
}

// Outputs evaluates the root outputs.
func (c *Config) Outputs() ([]Output, hcl.Diagnostics) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Output
	var diags hcl.Diagnostics
	for _, name := range c.root.decl.outOrder {
		o := c.root.decl.outputs[name]
		v, more := c.root.eval(o.value, nil)
		diags = append(diags, more...)
		out = append(out, Output{Name: name, Description: o.description, Value: v})
	}
	return out, diags
}

// Eval evaluates one expression in the root module's scope.
func (c *Config) Eval(text string) (cty.Value, hcl.Diagnostics) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.l.src.text("the expression", text)
	expr, diags := parseExpression(text, at.Filename)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	return c.root.eval(expr, nil)
}

// EvalWith evaluates an expression that stands in no plan as one of the root
// module, with further names and functions.
func (c *Config) EvalWith(expr hcl.Expression, names map[string]cty.Value, functions map[string]function.Function) (cty.Value, *hcl.EvalContext, hcl.Diagnostics) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bound := map[string]bool{}
	for name := range names {
		bound[name] = true
	}
	ctx, diags := c.root.context([]hcl.Expression{expr}, nil, bound)
	if diags.HasErrors() {
		return cty.DynamicVal, ctx, diags
	}
	ctx = ctx.NewChild()
	ctx.Variables, ctx.Functions = names, functions
	v, more := expr.Value(ctx)
	return v, ctx, append(diags, more...)
}

// Variable describes one input of the plan.
type Variable struct {
	Name        string
	Type        cty.Type
	Description string
	Default     cty.Value // NilVal when it must be given
	Sensitive   bool
	Value       cty.Value
	Range       hcl.Range
}

// Variables lists the root variables in the order of the plan.
func (c *Config) Variables() []Variable {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Variable
	for _, name := range c.root.decl.varOrder {
		d := c.root.decl.variables[name]
		v := Variable{Name: name, Type: d.typ, Description: d.description, Range: d.rng}
		if d.hasDefault {
			v.Default = d.def
		}
		if v.Sensitive = d.sensitive; v.Sensitive && d.hasDefault {
			v.Default = d.def.Mark(stage.Sensitive)
		}
		v.Value, _ = c.root.variable(name, d.rng)
		out = append(out, v)
	}
	return out
}

// Runtimes lists the runtimes of the plan and of its modules, by address.
// Those that could not be evaluated are left out.
func (c *Config) Runtimes() []*stage.Runtime {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*stage.Runtime
	var walk func(s *scope)
	walk = func(s *scope) {
		for name, d := range s.decl.runtimes {
			v, diags := s.runtime(name, d.rng())
			if diags.HasErrors() || !v.IsKnown() {
				continue
			}
			if rt, err := stage.RuntimeOf(v); err == nil {
				out = append(out, rt)
			}
		}
		for _, children := range s.children {
			for _, child := range children {
				walk(child)
			}
		}
	}
	walk(c.root)
	sort.Slice(out, func(i, j int) bool { return out[i].Address < out[j].Address })
	return out
}

// Modules lists the folders of the modules that the plan uses, sorted.
func (c *Config) Modules() []string {
	var out []string
	for path := range c.l.modules {
		out = append(out, display(path))
	}
	sort.Strings(out)
	return out
}

// Text is the source text of an instance's block.
func (c *Config) Text(in *Instance) string {
	r := in.decl.block.Range()
	f := c.Files()[r.Filename]
	if f == nil || !r.CanSliceBytes(f.Bytes) {
		return ""
	}
	return string(r.SliceBytes(f.Bytes))
}

// Known is what is known before anything runs of the values that the body of an
// instance uses, by the references that name them.
func (c *Config) Known(in *Instance) map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
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
			out[traversalText(t)] = stage.Plain(v)
		}
	}
	return out
}

func traversalText(t hcl.Traversal) string {
	var b strings.Builder
	for _, step := range t {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			b.WriteString(s.Name)
		case hcl.TraverseAttr:
			b.WriteString("." + s.Name)
		case hcl.TraverseIndex:
			fmt.Fprintf(&b, "[%s]", stage.Plain(s.Key))
		}
	}
	return b.String()
}

// Body returns the stage's attributes and blocks without the ones that all
// stages share; for describe and graph, which show the text.
func (in *Instance) Body() *hclsyntax.Body { return in.decl.body }
