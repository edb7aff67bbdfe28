package stage

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/sink/base/textutil"
)

// RuntimeKind is the schema of the runtimes of one kind, as plain data. The behaviour of the kind is in
// stages/runtimes, which lists the kinds. The engine knows no kind by name.
type RuntimeKind struct {
	// Name is the value of the attribute kind.
	Name string
	// Summary is one line for describe and docs.
	Summary string
	// Stability is the level of stability of the kind.
	Stability Stability
	// Attributes are the attributes with a field of Runtime that the kind uses in addition to those of every runtime.
	// Others are errors in its blocks.
	Attributes []string
	// Options are the attributes of this kind only.
	Options []Option
	// Blocks are the blocks that a runtime block of the kind may have, each at most once.
	Blocks []Block
	// Collect are the blocks that a collect on such a runtime may have, each at most once: settings of the work
	// that belong neither to the case nor to the runtime. Workers get them as Init.Blocks.
	Collect []Block
	// Measure are the settings of a collect's measure block that the workers use. If it is empty, the settings are
	// in no key and a measure block is an error.
	Measure []string
	// Table is the perf table of the rows if the grid names none.
	Table string
	// Columns are columns that rows may have in addition to those of their table.
	Columns []string
	// Closed is set if rows have only the columns of the measuring code, so that a plan knows them.
	Closed bool
	// Ops are the ops that the workers measure. Nil means that only a worker knows them.
	Ops []Op
	// Binds describes what the bind of a collect names ("a CUDA kernel"). It is empty if the kind takes no bind.
	Binds string
	// NamesOps is set if workers get the name of the op also from a collect without bind.
	NamesOps bool
	// Reads is set if ops may read files of other stages; see the attribute reads of a collect.
	Reads bool
	// Instrument is the version of the measuring code, from 1, or 0 if the workers measure nothing themselves.
	// Raise it if a number changes its meaning: rows of other versions are then stale.
	Instrument int
}

// Stability is a promise to users.
type Stability string

// The levels of stability.
const (
	// Stable kinds keep their options, and their rows keep their meaning unless
	// Instrument is raised.
	Stable Stability = "stable"
	// Experimental kinds may change their options and the meaning of rows between releases.
	Experimental Stability = "experimental"
)

// Option is one attribute.
type Option struct {
	Name string
	// Type is the type that values are converted to. With cty.DynamicPseudoType, any value is accepted and the
	// worker checks it.
	Type cty.Type
	// Doc is one sentence without a full stop.
	Doc string
	// Default is the value of an option that is not set, as written in plans. It is empty if there is none.
	Default string
	// OneOf lists the valid values of a text. Nil accepts all.
	OneOf []string
	// Check returns the error in a text that is not empty, or in one of a list. Nil accepts all.
	Check    func(text string) error
	Required bool
	// Beside is set if the value does not change the meaning of rows. It is then in no key.
	Beside bool
	// Secret options are in no key and are never stored or shown. They may be set by sensitive variables.
	Secret bool
	// Pool is set if the engine uses the option and the worker does not get it.
	Pool bool
}

// Block is a block with options.
type Block struct {
	Name    string
	Doc     string
	Options []Option
	// Beside is Option.Beside for all options in the block.
	Beside bool
}

// Op is an op that the workers of a kind measure.
type Op struct {
	Name string
	// Needs are the parameters that every case must have.
	Needs []string
	// Words lists the valid values of parameters that are words, by parameter.
	Words map[string][]string
	// Option is the name of the boolean option that adds the op. It is empty if the op is always available.
	Option string
	// Bound is set if the op needs the bind of a collect.
	Bound bool
}

// RuntimeCommon lists the attributes with a field of Runtime that runtimes of every kind have.
var RuntimeCommon = []string{"env", "framework", "image", "image_digest", "kind", "launcher"}

// Has reports whether runtimes of the kind have a shared attribute.
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

func blockNamed(blocks []Block, name string) *Block {
	if i := slices.IndexFunc(blocks, func(b Block) bool { return b.Name == name }); i >= 0 {
		return &blocks[i]
	}
	return nil
}

// Beside reports whether the value of an option of a runtime does not change the meaning of rows.
func (k *RuntimeKind) Beside(name string) bool {
	if o := k.Option(name); o != nil {
		return o.Beside
	}
	b := blockNamed(k.Blocks, name)
	return b != nil && b.Beside
}

// ServiceKind is a kind of block that stages refer to and that has no data, such as telemetry or an executor. It
// is plain data; the package that offers the service implements it.
type ServiceKind struct {
	// Name is the block type, and the root of references: telemetry.NAME.
	Name string
	// Summary is one line for describe and docs.
	Summary string
	Options []Option
	// Blocks are the nested blocks, each at most once.
	Blocks []Block
}

// Service is a block of such a kind.
type Service struct {
	Kind    string
	Name    string
	Address string // KIND.NAME with its module path
	// Options are the values in the block. Blocks are objects.
	Options map[string]cty.Value
	// Dir is the folder of relative paths in the block.
	Dir   string
	Range hcl.Range
}

// ServiceType is the capsule in the attribute "ref" of a service's object.
var ServiceType = cty.Capsule("service", reflect.TypeFor[Service]())

// ServiceOf returns the service of a kind that v refers to.
func ServiceOf(v cty.Value, kind string) (*Service, error) {
	what := fmt.Sprintf("%s, such as %s.NAME", textutil.WithArticle(kind), kind)
	s, err := unwrap[Service](v, ServiceType, what)
	if err == nil && s.Kind != kind {
		return nil, fmt.Errorf("this is %s; it must refer to %s", s.Address, what)
	}
	return s, err
}
