package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// leaves returns the verbs without sub-verbs.
func leaves(t *testing.T) []*kong.Node {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Name("aicplan"), kong.Bind(&app{}), kong.PostBuild(describeFlags))
	if err != nil {
		t.Fatal(err)
	}
	all := parser.Model.Leaves(true)
	if len(all) < 20 {
		t.Fatalf("only %d verbs", len(all))
	}
	return all
}

func verbOf(n *kong.Node) string { return strings.TrimPrefix(n.Path(), "aicplan ") }
