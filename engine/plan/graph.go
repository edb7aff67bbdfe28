package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dominikbraun/graph"
)

// Graph is an acyclic graph of stage addresses. It is safe for concurrent reads.
type Graph struct {
	order      []string
	deps       map[string][]string
	dependents map[string][]string
}

// newGraph returns the graph of the given addresses, which are unique and in source order. deps maps an
// address to those that it depends on. If there are cycles, it returns one for each group of stages that
// depend on each other: every member depends on the next one, and the last on the first.
func newGraph(addresses []string, deps map[string][]string) (*Graph, [][]string) {
	g := graph.New(graph.StringHash, graph.Directed())
	position := make(map[string]int, len(addresses))
	for i, a := range addresses {
		position[a] = i
		if err := g.AddVertex(a); err != nil {
			panic(fmt.Sprintf("stage %s: %v", a, err))
		}
	}

	out := &Graph{deps: map[string][]string{}, dependents: map[string][]string{}}
	for _, a := range addresses {
		for _, d := range deps[a] {
			err := g.AddEdge(d, a)
			if errors.Is(err, graph.ErrEdgeAlreadyExists) {
				continue
			}
			if err != nil {
				panic(fmt.Sprintf("%s depends on %s: %v", a, d, err))
			}

			out.deps[a] = append(out.deps[a], d)
			out.dependents[d] = append(out.dependents[d], a)
		}
	}

	bySource := func(a, b string) int { return position[a] - position[b] }
	for a := range out.deps {
		slices.SortFunc(out.deps[a], bySource)
	}

	var err error
	out.order, err = graph.StableTopologicalSort(g, func(a, b string) bool { return bySource(a, b) < 0 })
	if err != nil {
		return nil, out.cycles(g, bySource)
	}
	return out, nil
}

// cycles returns a shortest cycle through the first member, in source order, of each strongly connected
// component.
func (g *Graph) cycles(edges graph.Graph[string, string], bySource func(a, b string) int) [][]string {
	components, err := graph.StronglyConnectedComponents(edges)
	if err != nil {
		panic(fmt.Sprintf("stages that depend on each other: %v", err))
	}

	var out [][]string
	for _, members := range components {
		first := slices.MinFunc(members, bySource)
		if slices.Contains(g.deps[first], first) {
			out = append(out, []string{first})
			continue
		}

		var best []string
		for _, d := range g.deps[first] {
			// The edges lead from a dependency to its dependents.
			path, err := graph.ShortestPath(edges, first, d)
			if err == nil && (best == nil || len(path) < len(best)) {
				best = path
			}
		}

		if best != nil {
			slices.Reverse(best[1:])
			out = append(out, best)
		}
	}

	slices.SortFunc(out, func(a, b []string) int { return bySource(a[0], b[0]) })
	return out
}

// Deps returns the direct dependencies of an address in source order.
func (g *Graph) Deps(address string) []string { return g.deps[address] }

// Dependents returns the addresses that depend directly on an address, in source order.
func (g *Graph) Dependents(address string) []string { return g.dependents[address] }

// Closure returns from and all its direct and indirect dependencies.
func (g *Graph) Closure(from ...string) map[string]bool { return reach(from, g.deps) }

// Behind returns from and all addresses that depend on it directly or indirectly.
func (g *Graph) Behind(from ...string) map[string]bool { return reach(from, g.dependents) }

func reach(from []string, next map[string][]string) map[string]bool {
	seen := map[string]bool{}
	for queue := slices.Clone(from); len(queue) > 0; {
		a := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if !seen[a] {
			seen[a] = true
			queue = append(queue, next[a]...)
		}
	}
	return seen
}
