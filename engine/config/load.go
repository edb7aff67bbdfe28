package config

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/systems"
)

// Options define what to load and with which values.
type Options struct {
	Path     string                // plan file, or a folder of plan files
	Kinds    map[string]stage.Kind // all stage kinds by name
	Runtimes []stage.RuntimeKind   // all kinds of runtimes
	Services []stage.ServiceKind   // all kinds of service blocks
	Vars     []string              // NAME=VALUE as given with --var, in order
	VarFiles []string              // in order
	Environ  []string              // in the format of os.Environ
	Systems  func(name, file string) (*systems.Spec, error)
	// Given are values of variables from a file. They override all others.
	Given map[string]*hcl.Attribute
	// Optional are values of variables from a file. Undeclared variables are ignored. Given
	// overrides them.
	Optional map[string]*hcl.Attribute
	// Inline is the body of the plan if the plan is a block of the file at Path. It is nil if the
	// file is the plan.
	Inline *hclsyntax.Body
	// Sources are additional files by name for snippets in diagnostics.
	Sources map[string]*hcl.File
}

type loader struct {
	opts      Options
	kinds     map[string]stage.Kind
	src       *sources
	services  map[string]*stage.ServiceKind
	runtimes  map[string]*stage.RuntimeKind
	roots     map[string]bool // first names of references
	functions map[string]function.Function
	rootVars  map[string]givenValue
	modules   map[string]*moduleDecl // by absolute path
	exprs     map[hclsyntax.Node]exprParts
	results   map[string]map[string]cty.Value
	byAddr    map[string]*Instance
	finished  int // number of changes of results; cached values that depend on stages become stale
	busy      []frame
	uses      *uses    // of the value that is being evaluated; nil if they are not needed
	marks     bool     // at least one value is sensitive
	secrets   []string // words and numbers in sensitive values, except defaults, which the plan's text contains
	failures  int      // values that could not be evaluated; other values may be unknown because of them
	// unreadable is true if a file has syntax errors.
	unreadable bool
	declared   []catalog.Declaration // tables of the plan and its modules
	tables     *catalog.Catalog      // the built-in tables and the declared ones
}

// Load parses the plan, evaluates what is known before a run, expands for_each and modules, and
// finds the dependencies between stage instances. The returned Config is nil only if the path
// cannot be resolved. If the diagnostics contain errors, use the Config only to print snippets.
func Load(opts Options) (*Config, hcl.Diagnostics) {
	c, diags := load(opts)
	return c, unique(diags)
}

func load(opts Options) (*Config, hcl.Diagnostics) {
	abs, err := filepath.Abs(opts.Path)
	if err != nil {
		return nil, errorAt(startOf(opts.Path), "Cannot read the plan", "%s", err)
	}

	l := &loader{
		opts: opts, kinds: opts.Kinds, src: newSources(), functions: Functions(),
		modules: map[string]*moduleDecl{}, exprs: map[hclsyntax.Node]exprParts{},
		results:  map[string]map[string]cty.Value{},
		services: map[string]*stage.ServiceKind{}, runtimes: map[string]*stage.RuntimeKind{},
		roots: map[string]bool{}, byAddr: map[string]*Instance{},
	}
	for i, k := range opts.Services {
		l.services[k.Name] = &opts.Services[i]
	}
	for i, k := range opts.Runtimes {
		l.runtimes[k.Name] = &opts.Runtimes[i]
	}
	for _, name := range slices.Concat(namesOf(l.kinds), namesOf(l.services), reserved) {
		l.roots[name] = true
	}

	maps.Copy(l.src.flags, opts.Sources)
	c := &Config{Path: opts.Path, l: l}
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
		// Names may be missing because their file did not parse. Reporting each of them would bury
		// the syntax error.
		return c, diags
	}

	c.root = newScope(l, decl, nil, nil, nil, "", abs)
	diags = append(diags, c.root.evaluateAll()...)
	c.Instances = c.root.allInstances()

	for _, in := range c.Instances {
		diags = append(diags, WithAddress(in.resolve(), in.Address)...)
	}

	if diags.HasErrors() {
		// Everything that uses an invalid value or block is unknown.
		return c, append(diags, c.independent()...)
	}

	return c, diags
}

// independent returns the errors in the bodies of stages that use no invalid value.
func (c *Config) independent() hcl.Diagnostics {
	var out hcl.Diagnostics
	for _, in := range c.Instances {
		if used, diags := in.bodyUses(); used.failed || diags.HasErrors() {
			continue
		}
		_, _, diags := c.Decode(in)
		out = append(out, diags...)
	}

	return out
}
