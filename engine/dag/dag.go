// Package dag orders stage instances. It wraps dominikbraun/graph: vertices are stages, never
// cases. A graph is built once and read-only from then on.
package dag

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/dominikbraun/graph"
)

// Graph is an acyclic graph of stage addresses. It is safe for concurrent reads.
type Graph struct {
	order      []string
	deps       map[string][]string
	dependents map[string][]string
}

// CycleError reports one cycle per group of stages that depend on each other.
type CycleError struct {
	// Cycles are in plan order. In each cycle, every member depends on the next one and the last
	// depends on the first.
	Cycles [][]string
}

func (e *CycleError) Error() string {
	var parts []string
	for _, c := range e.Cycles {
		parts = append(parts, strings.Join(c, " -> ")+" -> "+c[0])
	}
	return "stages wait for each other: " + strings.Join(parts, "; ")
}

// Build returns the graph of the given vertices. Vertices are in source order, which also breaks
// ties in Order; deps maps a vertex to its dependencies. It returns a CycleError if there are
// cycles, and an error if an address occurs twice. It panics if a dependency is not a vertex.
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
	var alone [][]string // stages that depend on themselves
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

// sorted returns the vertices in topological order. Vertices that become ready at the same step are
// in source order and follow those that were ready before. It takes linear time in the number of
// edges, while the library's sort is quadratic in the number of vertices. Members of a cycle are
// omitted.
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

// around returns a shortest cycle through the first member, in source order, of a strongly
// connected component.
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

// Order returns all vertices so that each one comes after its dependencies.
func (g *Graph) Order() []string { return g.order }

// Deps returns the direct dependencies of v.
func (g *Graph) Deps(v string) []string { return g.deps[v] }

// Dependents returns the vertices that depend directly on v.
func (g *Graph) Dependents(v string) []string { return g.dependents[v] }

// Closure returns from and all its direct and indirect dependencies.
func (g *Graph) Closure(from ...string) map[string]bool { return reach(from, g.deps) }

// Behind returns from and all vertices that depend on it directly or indirectly.
func (g *Graph) Behind(from ...string) map[string]bool { return reach(from, g.dependents) }

func reach(from []string, next map[string][]string) map[string]bool {
	seen := map[string]bool{}
	from = slices.Clone(from) // do not modify the caller's slice
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
