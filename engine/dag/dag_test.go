package dag

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestOrderFollowsSourceWhereItMay(t *testing.T) {
	g, err := Build([]string{"a", "b", "c", "d"}, map[string][]string{"a": {"d"}, "b": nil, "c": {"b", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Order(); slices.Index(got, "d") > slices.Index(got, "a") ||
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

func TestCyclesNameTheWay(t *testing.T) {
	for _, c := range []struct {
		deps map[string][]string
		want string
	}{
		{map[string][]string{"a": {"c"}, "b": {"a"}, "c": {"b"}, "x": nil}, "a -> c -> b -> a"},
		{map[string][]string{"a": {"x", "a"}}, "a -> a"},
		// Two strongly connected components, one with a longer path; x only depends on the first.
		{map[string][]string{"x": {"a"}, "a": {"b"}, "b": {"c", "a"}, "c": {"a"}, "d": {"e"}, "e": {"d"}},
			"a -> b -> a; d -> e -> d"},
	} {
		_, err := Build([]string{"x", "a", "b", "c", "d", "e"}, c.deps)
		var ce *CycleError
		if !errors.As(err, &ce) || err.Error() != "stages wait for each other: "+c.want {
			t.Errorf("%v: %v, want %s", c.deps, err, c.want)
		}
	}
}

func TestOrderIsTopologicalAndStable(t *testing.T) {
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
		first, err := Build(source, deps)
		if err != nil {
			t.Fatal(err)
		}

		second, _ := Build(source, deps)
		if !slices.Equal(first.Order(), second.Order()) {
			t.Fatalf("two builds differ: %v %v", first.Order(), second.Order())
		}

		at := map[string]int{}
		for i, v := range first.Order() {
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

// TestReachKeepsItsArguments checks that the argument slice is not modified.
func TestReachKeepsItsArguments(t *testing.T) {
	t.Parallel()
	g, err := Build([]string{"a", "b", "c"}, map[string][]string{"b": {"a"}, "c": {"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}

	all := []string{"a", "b", "c"}
	g.Closure(all...)
	g.Behind(all...)
	if !slices.Equal(all, []string{"a", "b", "c"}) {
		t.Errorf("%v", all)
	}
}
