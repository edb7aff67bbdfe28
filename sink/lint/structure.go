package lint

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"aicplan/sink/catalog"
	"aicplan/sink/tree"
)

// structure checks folders and sidecars without opening a table.
func (l *linter) structure() {
	l.sidecars()
	l.reuses()
	for _, e := range l.scan.Entries {
		t, ok := e.Lookup()
		switch {
		case !ok:
			msg := fmt.Sprintf("aicplan knows no table %s: nothing was checked in it", e.Table)
			if s := catalog.Suggest(e.Table); len(s) > 0 {
				msg += "; did you mean " + s[0] + "?"
			}
			l.found("unknown_table", e.Path, e.Table, "%s", msg)
		case e.Layout == tree.Families && e.Family != t.Family:
			l.found("R4", e.Path, e.Table, "%s belongs to the family %s and is in the folder of %s", e.Table, t.Family, e.Family)
		}
	}
	for _, m := range l.scan.Markers {
		l.found("R6", m, "", "leftover note; record it in the sidecar (status: partial, or reuse.yaml)")
	}
	l.manifest()
	l.slots()
	l.lanes()
}

// sidecars checks every folder of the family layout against its
// collection_meta.yaml.
func (l *linter) sidecars() {
	metas := map[string]*tree.Meta{}
	for _, s := range l.scan.Sidecars {
		if s.Name != tree.MetaFile {
			continue
		}
		meta, err := tree.ReadMeta(filepath.Join(l.root, s.Path))
		if err != nil {
			l.found("unreadable", s.Path, "", "%v", err)
			continue
		}
		metas[filepath.Dir(s.Path)] = meta
		l.meta(s.Path, meta)
	}
	for _, e := range l.scan.Entries {
		if e.Layout != tree.Families || e.Format != "parquet" {
			continue
		}
		meta, ok := metas[e.Dir()]
		if !ok {
			l.found("R1", e.Path, e.Table, "its folder has no readable %s", tree.MetaFile)
			continue
		}
		if _, ok := meta.Tables[e.Table]; !ok {
			l.found("R1", e.Path, e.Table, "%s has no entry for it", tree.MetaFile)
		}
	}
}

// meta checks one sidecar by itself and against the files in its folder.
func (l *linter) meta(path string, meta *tree.Meta) {
	if meta.Provenance == "legacy" {
		l.add(Finding{Rule: "legacy_sidecar", Path: path, Count: len(meta.Tables),
			Message: "the sidecar does not record how these tables were collected"})
	}
	dir := filepath.Dir(path)
	for _, name := range slices.Sorted(maps.Keys(meta.Tables)) {
		t := meta.Tables[name]
		if t.Status == tree.Partial {
			l.found("partial", path, name, "%s is partial", name)
		}
		if t.Rows != nil && *t.Rows > 0 && t.CasePlanHash == tree.EmptyPlanHash {
			l.found("R7", path, name, "%s has %d rows and the plan hash of no cases", name, *t.Rows)
		}
		if !slices.ContainsFunc(l.scan.Entries, func(e tree.Entry) bool { return e.Dir() == dir && e.Table == name }) {
			l.found("sidecar_orphan", path, name, "%s is not in the folder", name)
		}
	}
}

// reuses checks every reuse.yaml.
func (l *linter) reuses() {
	for _, s := range l.scan.Sidecars {
		if s.Name != tree.ReuseFile {
			continue
		}
		dir := filepath.Dir(s.Path)
		parts := strings.Split(dir, "/")
		if slices.Contains(parts, "comm") {
			l.found("R3", s.Path, "", "tables below comm are never reused across versions")
		}
		var reuse *tree.Reuse
		if !l.parsed(s.Path, "R2", func(data []byte) (err error) { reuse, err = tree.ParseReuse(data); return err }) {
			continue
		}
		for _, e := range reuse.Entries {
			donor := filepath.Join(filepath.Dir(dir), e.FromVersion, catalog.Stem(e.Table)+".parquet")
			if !filepath.IsLocal(donor) {
				l.found("R2", s.Path, e.Table, "from_version %q is not the name of a folder", e.FromVersion)
				continue
			}
			if _, err := os.Stat(filepath.Join(l.root, donor)); err != nil {
				l.found("R2", s.Path, e.Table, "%s of %s is to stand in, and there is no %s", e.Table, e.FromVersion,
					donor)
			}
		}
	}
}

// manifestFile pins the versions that are collected.
const manifestFile = "framework_manifest.yaml"

type manifest struct {
	Frameworks map[string]struct {
		Default  pin            `yaml:"default"`
		Families map[string]pin `yaml:"families"`
	} `yaml:"frameworks"`
}

type pin struct {
	Version string            `yaml:"version"`
	Images  map[string]string `yaml:"images"`
}

// manifest checks that every family of every backend resolves to a version,
// and that images of registries are pinned by digest.
func (l *linter) manifest() {
	var m manifest
	if !l.parsed(manifestFile, "R5", func(data []byte) error { return yaml.Unmarshal(data, &m) }) {
		return
	}
	for _, b := range []string{"trtllm", "vllm", "sglang"} {
		fw, ok := m.Frameworks[b]
		if !ok {
			l.found("R5", manifestFile, "", "there is no framework %s", b)
			continue
		}
		for _, family := range families() {
			p, ok := fw.Families[family]
			if !ok {
				p = fw.Default
			}
			if strings.TrimSpace(p.Version) == "" {
				l.found("R5", manifestFile, "", "the family %s of %s has no version", family, b)
			}
		}
		l.images(b, "default", fw.Default)
		for _, family := range slices.Sorted(maps.Keys(fw.Families)) {
			l.images(b, family, fw.Families[family])
		}
	}
}

func (l *linter) images(backend, family string, p pin) {
	for _, variant := range slices.Sorted(maps.Keys(p.Images)) {
		if image := p.Images[variant]; strings.Contains(image, "/") && !strings.Contains(image, "@sha256:") {
			const text = "the image %s (%s of %s, %s) is not pinned by digest"
			l.found("R5", manifestFile, "", text, image, family, backend, variant)
		}
	}
}

func families() []string {
	var out []string
	for _, t := range catalog.Tables() {
		if !t.Legacy {
			out = append(out, t.Family)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
