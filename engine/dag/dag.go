// Package dag orders stage instances. It keeps dominikbraun/graph behind a few
// functions: vertices are stages, never cases, the graph is built once and read only from then on.
package dag

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/dominikbraun/graph"
)

// Graph is an acyclic graph of stage addresses.
type Graph struct {
	order      []string
	deps       map[string][]string
	dependents map[string][]string
}

// CycleError names one cycle of each knot of stages that wait for each other.
type CycleError struct {
	// Cycles are in the order of the plan. In each, every member waits for the
	// next and the last for the first.
	Cycles [][]string
}

func (e *CycleError) Error() string {
	var parts []string
	for _, c := range e.Cycles {
		parts = append(parts, strings.Join(c, " -> ")+" -> "+c[0])
	}
	return "stages wait for each other: " + strings.Join(parts, "; ")
}

// Build makes the graph. Vertices are given in source order, which also breaks
// ties in Order; deps lists what a vertex waits for. A dependency that is not
// a vertex is a programming error.
func Build(vertices []string, deps map[string][]string) (*Graph, error) {
	g := graph.New(graph.StringHash, graph.Directed())
	position := make(map[string]int, len(vertices))
	for i, v := range vertices {
		position[v] = i
		if err := g.AddVertex(v); err != nil {
			return nil, fmt.Errorf("two stages have the address %s: %w", v, err)
		}
	}
	out := &Graph{deps: map[string][]string{}, dependents: map[string][]string{}}
	var alone [][]string // stages that wait for themselves
	for _, v := range vertices {
		for _, d := range deps[v] {
			if d == v {
				alone = append(alone, []string{v})
				continue
			}
			err := g.AddEdge(d, v)
			if errors.Is(err, graph.ErrEdgeAlreadyExists) {
				continue
			}
			if err != nil {
				panic(fmt.Sprintf("edge %s -> %s: %v", d, v, err))
			}
			out.deps[v] = append(out.deps[v], d)
			out.dependents[d] = append(out.dependents[d], v)
		}
	}
	bySource := func(a, b string) bool { return position[a] < position[b] }
	out.order = out.sorted(vertices, bySource)
	if len(out.order) < len(vertices) || len(alone) > 0 {
		return nil, cycles(g, out.deps, alone, position)
	}
	for _, m := range []map[string][]string{out.deps, out.dependents} {
		for v := range m {
			sort.Slice(m[v], func(i, j int) bool { return bySource(m[v][i], m[v][j]) })
		}
	}
	return out, nil
}

// sorted lists vertices behind what they wait for: in the order of the source,
// and what a vertex was the last to hold up behind all that could go before. It
// takes one step an edge; the library's takes one for each pair of vertices.
// Members of a cycle are left out.
func (g *Graph) sorted(vertices []string, bySource func(a, b string) bool) []string {
	waits := make(map[string]int, len(vertices))
	queue := make([]string, 0, len(vertices))
	for _, v := range vertices {
		if waits[v] = len(g.deps[v]); waits[v] == 0 {
			queue = append(queue, v)
		}
	}
	for at := 0; at < len(queue); at++ {
		from := len(queue)
		for _, d := range g.dependents[queue[at]] {
			if waits[d]--; waits[d] == 0 {
				queue = append(queue, d)
			}
		}
		freed := queue[from:]
		sort.Slice(freed, func(i, j int) bool { return bySource(freed[i], freed[j]) })
	}
	return queue
}

func cycles(g graph.Graph[string, string], deps map[string][]string, found [][]string, position map[string]int) error {
	knots, err := graph.StronglyConnectedComponents(g)
	if err != nil {
		return fmt.Errorf("find the cycle: %w", err)
	}
	for _, k := range knots {
		if len(k) > 1 {
			found = append(found, around(k, deps, position))
		}
	}
	sort.Slice(found, func(i, j int) bool { return position[found[i][0]] < position[found[j][0]] })
	return &CycleError{Cycles: found}
}

// around is a shortest way from the first member of a knot back to itself.
func around(knot []string, deps map[string][]string, position map[string]int) []string {
	inside := map[string]bool{}
	start := knot[0]
	for _, v := range knot {
		inside[v] = true
		if position[v] < position[start] {
			start = v
		}
	}
	cameFrom := map[string]string{}
	for queue := []string{start}; ; queue = queue[1:] {
		for _, d := range deps[queue[0]] {
			if d == start {
				path := []string{}
				for v := queue[0]; v != start; v = cameFrom[v] {
					path = append(path, v)
				}
				path = append(path, start)
				slices.Reverse(path)
				return path
			}
			if _, seen := cameFrom[d]; !seen && inside[d] {
				cameFrom[d] = queue[0]
				queue = append(queue, d)
			}
		}
	}
}

// Order lists all vertices so that each comes after what it waits for.
func (g *Graph) Order() []string { return g.order }

// Deps lists what v waits for directly.
func (g *Graph) Deps(v string) []string { return g.deps[v] }

// Dependents lists what waits for v directly.
func (g *Graph) Dependents(v string) []string { return g.dependents[v] }

// Closure returns from and all it waits for, directly or not.
func (g *Graph) Closure(from ...string) map[string]bool { return reach(from, g.deps) }

// Behind returns from and all that waits for it, directly or not.
func (g *Graph) Behind(from ...string) map[string]bool { return reach(from, g.dependents) }

func reach(from []string, next map[string][]string) map[string]bool {
	seen := map[string]bool{}
	from = slices.Clone(from) // the caller's list stays as it is
	for len(from) > 0 {
		v := from[len(from)-1]
		from = from[:len(from)-1]
		if !seen[v] {
			seen[v] = true
			from = append(from, next[v]...)
		}
	}
	return seen
}
