package plan

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestGraphOrderFollowsDependencies(t *testing.T) {
	g, cycles := newGraph([]string{"a", "b", "c", "d"}, map[string][]string{"a": {"d"}, "b": nil, "c": {"b", "b"}})
	if cycles != nil {
		t.Fatal(cycles)
	}
	if got := g.order; slices.Index(got, "d") > slices.Index(got, "a") ||
		slices.Index(got, "b") > slices.Index(got, "c") {
		t.Errorf("order %v breaks a dependency", got)
	}

	if got := g.Deps("c"); !slices.Equal(got, []string{"b"}) {
		t.Errorf("deps of c: %v, want b once", got)
	}
	if got := g.Behind("d"); !got["a"] || got["b"] {
		t.Errorf("behind d: %v", got)
	}

	if got := g.Closure("c"); !got["b"] || got["a"] {
		t.Errorf("closure of c: %v", got)
	}
}

func TestGraphReportsCycles(t *testing.T) {
	for _, c := range []struct {
		deps map[string][]string
		want [][]string
	}{
		{map[string][]string{"a": {"c"}, "b": {"a"}, "c": {"b"}, "x": nil}, [][]string{{"a", "c", "b"}}},
		{map[string][]string{"a": {"x", "a"}}, [][]string{{"a"}}},
		// Two strongly connected components, one with a longer path; x only depends on the first.
		{map[string][]string{"x": {"a"}, "a": {"b"}, "b": {"c", "a"}, "c": {"a"}, "d": {"e"}, "e": {"d"}},
			[][]string{{"a", "b"}, {"d", "e"}}},
	} {
		_, cycles := newGraph([]string{"x", "a", "b", "c", "d", "e"}, c.deps)
		if !reflect.DeepEqual(cycles, c.want) {
			t.Errorf("%v: %v, want %v", c.deps, cycles, c.want)
		}
	}
}

func TestGraphOrderIsTopologicalAndStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		var vs []string
		deps := map[string][]string{}
		for i := range n {
			v := string(rune('A'+i%26)) + string(rune('a'+i/26))
			for _, d := range vs {
				if rapid.IntRange(0, 5).Draw(t, "edge") == 0 {
					deps[v] = append(deps[v], d)
				}
			}

			vs = append(vs, v)
		}

		source := rapid.Permutation(vs).Draw(t, "source")
		first, cycles := newGraph(source, deps)
		if cycles != nil {
			t.Fatal(cycles)
		}

		second, _ := newGraph(source, deps)
		if !slices.Equal(first.order, second.order) {
			t.Fatalf("two builds differ: %v %v", first.order, second.order)
		}

		at := map[string]int{}
		for i, v := range first.order {
			at[v] = i
		}

		if len(at) != n {
			t.Fatalf("%d of %d vertices", len(at), n)
		}

		for v, ds := range deps {
			for _, d := range ds {
				if at[d] > at[v] {
					t.Fatalf("%s before its dependency %s", v, d)
				}
			}
		}
	})
}

// TestClosureKeepsItsArguments checks that the argument slice is not modified.
func TestClosureKeepsItsArguments(t *testing.T) {
	t.Parallel()
	g, cycles := newGraph([]string{"a", "b", "c"}, map[string][]string{"b": {"a"}, "c": {"a", "b"}})
	if cycles != nil {
		t.Fatal(cycles)
	}

	all := []string{"a", "b", "c"}
	g.Closure(all...)
	g.Behind(all...)
	if !slices.Equal(all, []string{"a", "b", "c"}) {
		t.Errorf("%v", all)
	}
}
