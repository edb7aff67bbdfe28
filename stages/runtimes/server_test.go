package runtimes

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// TestServerProblemReportsMissingPort checks that the plan reports a server that does not get its port. The run
// would otherwise wait until the deadline.
func TestServerProblemReportsMissingPort(t *testing.T) {
	t.Parallel()
	command := func(words ...string) cty.Value {
		var list []cty.Value
		for _, w := range words {
			list = append(list, cty.StringVal(w))
		}
		return cty.ListVal(list)
	}
	for _, c := range []struct {
		options map[string]cty.Value
		env     map[string]string
		lacks   bool
	}{
		{map[string]cty.Value{"command": command("sh", "--port", "{port}")}, nil, false},
		{map[string]cty.Value{"command": command("sh", "--port", "8000")}, nil, true},
		{map[string]cty.Value{"command": command("sh", "--port", "8000"), "port": cty.NumberIntVal(8000)}, nil, false},
		{map[string]cty.Value{"command": command("sh")}, map[string]string{"PORT": "{port}"}, false},
	} {
		problem := serverKind().Problem(&stage.Runtime{Kind: "server", Address: "runtime.s", Options: c.options, Env: c.env},
			nil)
		if lacks := strings.Contains(problem, "has {port}, and port is not set"); lacks != c.lacks {
			t.Errorf("%v: %q", c.options, problem)
		}
	}
}
