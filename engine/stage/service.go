package stage

import (
	"fmt"
	"reflect"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

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
	what := fmt.Sprintf("a %s, such as %s.NAME", kind, kind)
	s, err := unwrap[Service](v, ServiceType, what)
	if err == nil && s.Kind != kind {
		return nil, fmt.Errorf("this is %s; it must refer to %s", s.Address, what)
	}
	return s, err
}
