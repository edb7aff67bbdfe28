package lint

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/tree"
)

// parsed reads a file below the root and reports by a rule if that fails. ok is false if it does not exist or cannot
// be read.
func (l *linter) parsed(name, rule string, parse func([]byte) error) (ok bool) {
	data, err := fileutil.ReadText(filepath.Join(l.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err == nil {
		err = parse(data)
	}
	if err != nil {
		l.found(rule, name, "", "%v", err)
		return false
	}
	return true
}

// has reports whether a system has tables of a version; "" means any system.
func (l *linter) has(system, backend, version string) bool {
	return slices.ContainsFunc(l.scan.Entries, func(e tree.Entry) bool {
		return e.Backend == backend && e.Version == version && (system == "" || e.System == system)
	})
}

// slots checks that the versions that readers may request have tables. Otherwise readers silently answer
// from older versions.
func (l *linter) slots() {
	var s *tree.Slots
	parse := func(data []byte) (err error) { s, err = tree.ParseSlots(data); return err }
	if !l.parsed(tree.SlotsFile, "unreadable", parse) {
		return
	}
	for _, p := range s.Places() {
		for word, version := range map[string]*string{"current": &p.Slot.Current, "previous": p.Slot.Previous} {
			if version != nil && !l.has(p.System, p.Backend, *version) {
				l.found("slots", tree.SlotsFile, "", "%s names %s as %s, and there is no table of it", p, *version, word)
			}
		}
	}
}

// lanes checks that attention_lane_defaults.yaml names versions that have tables.
func (l *linter) lanes() {
	var lanes map[string]tree.Lanes
	parse := func(data []byte) (err error) { lanes, err = tree.ParseLanes(data); return err }
	if !l.parsed(tree.LanesFile, "unreadable", parse) {
		return
	}
	missing := map[string]bool{} // several architectures may name one version
	for _, backends := range lanes {
		for backend, versions := range backends {
			for version := range versions {
				if !l.has("", backend, version) {
					missing[backend+" "+version] = true
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		l.found("lanes", tree.LanesFile, "", "it has kernels of %s, and there is no table of it", name)
	}
}
