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
		// What uses a wrong variable or a wrong block is unknown, in modules too, and
		// no mistake of its own.
		more := slices.DeleteFunc(c.decodeErrors(sound), func(d *hcl.Diagnostic) bool { return slices.Contains(followUps, d.Summary) })
		return c, append(diags, more...)
	}
	for _, in := range c.Instances {
		more := in.trace()
		diags = append(diags, WithAddress(more, in.Address)...)
	}
	return c, diags
}

// followUps are what grids say of values that are not known.
var followUps = []string{"Value not known at plan time", "Unknown loop"}

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
