package host

import (
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

// Invalid options must be reported before a server is started.
func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	serve := []any{"serve", "--port", "{port}"}
	for _, c := range []struct {
		options map[string]any
		env     map[string]string
		want    string // "" means valid
	}{
		{map[string]any{"command": serve}, nil, ""},
		{map[string]any{"command": []any{"serve", "--port", "8000"}}, nil, ""}, // reported when it is not ready
		{map[string]any{"command": []any{"serve", "--port", "8000"}, "port": 8000}, nil, ""},
		{map[string]any{"command": []any{"serve"}}, map[string]string{"PORT": "{port}"}, ""},
		{map[string]any{}, nil, "option command is not set"},
		{map[string]any{"command": serve, "colour": "red"}, nil, `no option "colour"`},
		{map[string]any{"command": serve, "stop": map[string]any{"signal": "SIGNOW", "within": "1s"}}, nil,
			`stop: option signal: "SIGNOW" is not the name of a signal`},
		{map[string]any{"command": serve, "ready": map[string]any{"within": "soon"}}, nil, `ready: option within is "soon"`},
		{map[string]any{"command": serve, "answers_within": "-1s"}, nil, `option answers_within is "-1s"`},
	} {
		_, err := parse(worker.Init{Options: c.options, Env: c.env})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v: %v", c.options, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v: %v, want %q", c.options, err, c.want)
		}
	}
}
