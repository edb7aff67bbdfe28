package stage

import (
	"slices"

	"github.com/zclconf/go-cty/cty"
)

// RuntimeKind is what plans may say about the runtimes of one kind, as plain
// data. Its behaviour (how workers start, what they need of the machine) is in
// stages/runtimes, which lists the kinds; the engine knows none by name.
type RuntimeKind struct {
	// Name is the value of the attribute kind.
	Name string
	// Summary is one line for describe and docs.
	Summary string
	// Stability says what users may rely on.
	Stability Stability
	// Attributes are the names in RuntimeAttributes that the kind uses besides
	// those of every runtime; others are errors in its blocks.
	Attributes []string
	// Options are the attributes of this kind alone.
	Options []Option
	// Blocks may stand in a runtime block of the kind, each at most once.
	Blocks []Block
	// Collect are the blocks that a collect on such a runtime may have, each at
	// most once: settings of the work that are neither the case's nor the
	// runtime's. Workers get them as Init.Blocks.
	Collect []Block
	// Measure are the settings of a collect's measure block that the workers
	// use. Where it is empty the settings are no part of any key, and a measure
	// block is an error.
	Measure []string
	// Table is the perf table of the rows where the grid names none.
	Table string
	// Closed is true where rows have no columns but those of the measuring code, so
	// that a plan knows what they will have.
	Closed bool
	// Ops are the ops that the workers measure; nil where only a worker can say.
	Ops []Op
	// Binds says what a collect's bind names ("a CUDA kernel"); empty where the
	// kind takes none.
	Binds string
	// NamesOps is true when workers are told the op that comes although the
	// collect has no bind.
	NamesOps bool
	// Reads is true when ops may read the files of other stages; see the attribute
	// reads of a collect.
	Reads bool
	// Instrument is the version of the measuring code, from 1; 0 if the workers
	// measure nothing themselves. Raise it if a number changes its meaning: rows of
	// other versions are then stale.
	Instrument int
}

// Stability says what users may rely on.
type Stability string

// The levels of stability.
const (
	// Stable kinds keep their options, and their rows keep their meaning unless
	// Instrument is raised.
	Stable Stability = "stable"
	// Experimental kinds may change both between releases.
	Experimental Stability = "experimental"
)

// Option is one attribute.
type Option struct {
	Name string
	// Type is what values are converted to; cty.DynamicPseudoType takes any value
	// and leaves the judgement to the worker.
	Type cty.Type
	// Doc is one sentence without a full stop.
	Doc string
	// Default is the value that holds where none is given, as a plan writes it;
	// empty where there is none.
	Default string
	// OneOf are the only values of a text; nil takes any.
	OneOf []string
	// Check says what is wrong with a text that is not empty; nil takes any.
	Check    func(text string) error
	Required bool
	// Beside is true when the value does not change what rows mean: it is then in
	// no key.
	Beside bool
	// Secret options are in no key and in nothing that is stored or shown, and may
	// be given by sensitive variables.
	Secret bool
	// Pool is true when the engine uses the option and the worker is not told.
	Pool bool
}

// Block is a block with options.
type Block struct {
	Name    string
	Doc     string
	Options []Option
	// Beside is Option.Beside for everything in the block.
	Beside bool
}

// Op is an op that the workers of a kind measure.
type Op struct {
	Name string
	// Needs are the parameters that every case must have.
	Needs []string
	// Words are the only values of parameters that are words, by parameter.
	Words map[string][]string
	// Option is the option, a bool, that adds the op; empty where it is always there.
	Option string
	// Bound is true for an op that needs a collect's bind.
	Bound bool
}

// RuntimeAttributes are the attributes of a runtime block that several kinds
// share. Those in RuntimeCommon are every kind's, the others are used by the
// kinds that name them.
var RuntimeAttributes = []Option{
	{Name: "kind", Type: cty.String, Doc: "what runs the cases", Required: true},
	{Name: "framework", Type: cty.String, Doc: "the label that the rows get, where the workers' own is not wanted"},
	{Name: "env", Type: cty.Map(cty.String), Doc: "environment variables of the workers"},
	{Name: "launcher", Type: cty.List(cty.String), Doc: "the program and its arguments that start each worker: a container, srun"},
	{Name: "image", Type: cty.String, Doc: "the container image, given to the launcher and kept with the rows"},
	{Name: "image_digest", Type: cty.String, Doc: "what the image is, as the plan states it"},
	{Name: "workers", Type: cty.Number, Doc: "workers on each device", Default: "1"},
	{Name: "devices", Type: cty.List(cty.Number), Doc: "indices of the GPUs in PCI bus order; all that are visible where it is left away"},
	{Name: "package", Type: cty.String, Doc: "the distribution whose version counts"},
	{Name: "requires", Type: cty.String, Doc: "what the package's version must be (PEP 440)"},
	{Name: "python", Type: cty.String, Doc: "the interpreter", Default: `"python3"`},
	{Name: "collector_root", Type: cty.String, Doc: "a checkout of aiconfigurator whose collectors are run"},
	{Name: "path", Type: cty.List(cty.String), Doc: "files and folders with op functions"},
}

// RuntimeCommon are the attributes that runtimes of every kind have.
var RuntimeCommon = []string{"env", "framework", "image", "image_digest", "kind", "launcher"}

// Has says whether runtimes of the kind have the shared attribute.
func (k *RuntimeKind) Has(attribute string) bool {
	return slices.Contains(RuntimeCommon, attribute) || slices.Contains(k.Attributes, attribute)
}

// Option returns the option called name, or nil.
func (k *RuntimeKind) Option(name string) *Option {
	if i := slices.IndexFunc(k.Options, func(o Option) bool { return o.Name == name }); i >= 0 {
		return &k.Options[i]
	}
	return nil
}

// Block returns the block of a runtime called name, or nil.
func (k *RuntimeKind) Block(name string) *Block { return blockNamed(k.Blocks, name) }

// CollectBlock returns the block of collects called name, or nil.
func (k *RuntimeKind) CollectBlock(name string) *Block { return blockNamed(k.Collect, name) }

func blockNamed(blocks []Block, name string) *Block {
	if i := slices.IndexFunc(blocks, func(b Block) bool { return b.Name == name }); i >= 0 {
		return &blocks[i]
	}
	return nil
}

// Beside says whether a value of a runtime's Options, by name, changes nothing
// about what rows mean.
func (k *RuntimeKind) Beside(name string) bool {
	if o := k.Option(name); o != nil {
		return o.Beside
	}
	b := k.Block(name)
	return b != nil && b.Beside
}

// OptionNames are the names of the options and of the blocks, sorted.
func (k *RuntimeKind) OptionNames() []string {
	var out []string
	for _, o := range k.Options {
		out = append(out, o.Name)
	}
	for _, b := range k.Blocks {
		out = append(out, b.Name)
	}
	slices.Sort(out)
	return out
}

// Words are all names that a runtime block of the kind may have, sorted.
func (k *RuntimeKind) Words() []string {
	out := slices.Concat(RuntimeCommon, k.Attributes, k.OptionNames())
	slices.Sort(out)
	return out
}
