package importer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"aicplan/sink/catalog"
	"aicplan/sink/tree"
	"aicplan/systems"
)

// nearest is the file of a table that is most like a target: of the same
// backend before others, of the same system before others of its generation,
// of the version just before it before later ones.
func nearest(entries []tree.Entry, o Options) (tree.Entry, error) {
	want := catalog.Stem(o.Table)
	var found []tree.Entry
	for _, e := range entries {
		if e.Table == want && (e.System != o.System || e.Backend != o.Backend || e.Version != o.Version) {
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		return tree.Entry{}, fmt.Errorf("no other table %s is there to compare %s %s %s with", want, o.System, o.Backend, o.Version)
	}
	far := map[string]int{}
	for _, e := range found {
		far[e.System] = generations(e.System, o.System)
	}
	slices.SortStableFunc(found, func(a, b tree.Entry) int {
		return cmp.Or(
			cmp.Compare(differ(a.Backend, o.Backend), differ(b.Backend, o.Backend)),
			cmp.Compare(far[a.System], far[b.System]),
			cmp.Compare(a.System, b.System),
			cmp.Compare(later(a.Version, o.Version), later(b.Version, o.Version)),
			closer(a.Version, b.Version, o.Version),
			cmp.Compare(a.Path, b.Path),
		)
	})
	return found[0], nil
}

func differ(a, b string) int {
	if a == b {
		return 0
	}
	return 1
}

// generations is how far two systems are apart: 0 for the same one, then by
// the difference of their compute capabilities.
func generations(a, b string) int {
	if a == b {
		return 0
	}
	x, errX := systems.Load(a)
	y, errY := systems.Load(b)
	if errX != nil || errY != nil {
		return math.MaxInt
	}
	d := x.GPU.SMVersion - y.GPU.SMVersion
	return 1 + max(d, -d)
}

func later(v, target string) int {
	if target != "" && tree.CompareVersions(v, target) > 0 {
		return 1
	}
	return 0
}

// closer orders two versions on one side of a target, the closer one first;
// without a target the latest is first.
func closer(a, b, target string) int {
	c := tree.CompareVersions(b, a)
	if target != "" && later(a, target) == 1 {
		return -c
	}
	return c
}
