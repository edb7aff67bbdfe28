package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A layer defines what its packages may import from the project. The rule with the longest prefix
// applies to a package. A package may also import packages below that prefix. docs/architecture.md
// describes the layers.
type layer struct {
	prefix string
	may    []string
}

var layers = []layer{
	{"systems", nil},
	{"sink", []string{"systems"}},
	{"cudaops", []string{"systems"}},
	{"cudaops/measure", nil}, // the algorithm is independent of devices
	{"cudaops/worker", nil},  // the protocol is independent of ops
	{"cudaops/pyhost", []string{"cudaops/worker"}},
	{"engine/grid", nil},
	{"engine/checkpoint", []string{"sink"}},
	{"engine/stage", []string{"engine/checkpoint", "sink/catalog", "systems"}},
	{"engine/config", []string{"engine/stage", "sink/catalog", "systems"}},
	{"engine/plan", []string{"engine", "sink"}},
	{"engine/plantest", []string{"engine", "sink"}},
	{"engine/run", []string{"engine", "sink"}},
	{"stages", []string{"engine/stage", "engine/checkpoint", "engine/grid", "engine/config", "cudaops", "sink",
		"systems"}},
	{"plans", nil},
	{"docs", nil},
	{"cmd", []string{"docs", "engine", "stages", "cudaops", "sink", "systems"}},
}

// ground are the folders whose packages every other package may import. They import only each other.
var ground = []string{"sink/base"}

// homes maps a module to the folders that may import it.
var homes = map[string][]string{
	"github.com/dominikbraun/graph":             {"engine/plan"},
	"github.com/ebitengine/purego":              {"cudaops/dl"},
	"github.com/NVIDIA/go-nvml":                 {"cudaops/nvml"},
	"github.com/apache/arrow":                   {"sink", "engine", "stages", "cmd"},
	"github.com/hashicorp/hcl":                  {"engine", "stages", "cmd"},
	"github.com/zclconf/go-cty":                 {"engine", "stages", "cmd"},
	"github.com/alecthomas/kong":                {"cmd"},
	"github.com/vbauerster/mpb":                 {"cmd"},
	"gonum.org/v1/plot":                         {"stages", "sink"},
	"github.com/prometheus/common":              {"cudaops/telemetry"},
	"github.com/prometheus/procfs":              {"cudaops", "stages"},
	"github.com/aquasecurity/go-pep440-version": {"cudaops/pyhost", "sink/tree"},
}

// TestImports checks the imports of every package against layers and homes.
func TestImports(t *testing.T) {
	t.Parallel()
	for pkg, imports := range projectImports(t) {
		if err := checkImports(pkg, imports); err != nil {
			t.Error(err)
		}
	}
}

// TestImportRulesCatch checks that the rules reject violations.
func TestImportRulesCatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pkg, imports string
		ok           bool
	}{
		{"engine/run", "aicplan/stages/collect", false},
		{"engine/stage", "aicplan/engine/config", false},
		{"engine/checkpoint", "aicplan/engine/stage", false},
		{"cudaops/ops", "aicplan/engine/stage", false},
		{"cudaops/ops", "github.com/hashicorp/hcl/v2/gohcl", false},
		{"cudaops/measure", "aicplan/cudaops/cuda", false},
		{"sink/table", "aicplan/engine/checkpoint", false},
		{"sink/base/fileutil", "aicplan/sink/table", false},
		{"sink/base/fileutil", "aicplan/sink/base/textutil", true},
		{"stages/gate", "aicplan/engine/run", false},
		{"stages/gate", "aicplan/cmd/aicplan", false},
		{"stages/gate", "github.com/dominikbraun/graph/draw", false},
		{"engine/planner", "aicplan/engine/plan", false}, // no layer has this name
		{"stages/gate/results", "aicplan/stages/dedupe", true},
		{"cudaops/measure/measuretest", "aicplan/cudaops/measure", true},
		{"engine/run", "aicplan/engine/plan", true},
		{"engine/plan", "github.com/dominikbraun/graph", true},
	} {
		if err := checkImports(c.pkg, []string{c.imports}); (err == nil) != c.ok {
			t.Errorf("%s importing %s: %v", c.pkg, c.imports, err)
		}
	}
}

// TestPackagesAreDocumented checks that the page names every package, or a parent folder followed by
// "/...". Test packages are named by their last element.
func TestPackagesAreDocumented(t *testing.T) {
	t.Parallel()
	page := readPage(t, "architecture.md")
	text := page.section(t, "Packages")
	for pkg := range projectImports(t) {
		parts := strings.Split(pkg, "/")
		ok := names(text, pkg) || strings.HasSuffix(pkg, "test") && names(text, parts[len(parts)-1])
		for i := range parts {
			ok = ok || names(text, strings.Join(parts[:i+1], "/")+"/...")
		}
		if !ok {
			t.Errorf("%s does not name the package %s", page.name, pkg)
		}
	}

	for _, m := range packageName.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(repoRoot(t), m[1])); err != nil {
			t.Errorf("%s names a package that does not exist: %v", page.name, err)
		}
	}
}

var packageName = regexp.MustCompile("`((?:cmd|cudaops|engine|sink|stages)/[a-z/]+[a-z])`")

// TestTopLevelFolders checks the list of top-level folders.
func TestTopLevelFolders(t *testing.T) {
	t.Parallel()
	want := []string{"cmd", "cudaops", "docs", "engine", "examples", "plans", "sink", "stages", "systems"}
	entries, err := os.ReadDir(repoRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		hidden := strings.HasPrefix(e.Name(), ".")
		made := slices.Contains([]string{"bin", "out"}, e.Name()) // created by make, and ignored by git
		if e.IsDir() && !hidden && !made && !slices.Contains(want, e.Name()) {
			t.Errorf("%s is not one of the project's folders: %v", e.Name(), want)
		}
	}
}

func checkImports(pkg string, imports []string) error {
	rule, err := layerOf(pkg)
	if err != nil {
		return err
	}
	var wrong []error
	for _, path := range imports {
		if own, ok := strings.CutPrefix(path, "aicplan/"); ok {
			if inGround(own) {
				continue
			}
			if inGround(pkg) || !below(own, rule.prefix) &&
				!slices.ContainsFunc(rule.may, func(p string) bool { return below(own, p) }) {
				wrong = append(wrong, fmt.Errorf("%s imports %s; packages of %s may import below it and from %v", pkg, own,
					rule.prefix, rule.may))
			}
			continue
		}
		for module, at := range homes {
			if below(path, module) && !slices.ContainsFunc(at, func(p string) bool { return below(pkg, p) }) {
				wrong = append(wrong, fmt.Errorf("%s imports %s, which only %v may", pkg, path, at))
			}
		}
	}
	return errors.Join(wrong...)
}

func inGround(pkg string) bool {
	return slices.ContainsFunc(ground, func(g string) bool { return below(pkg, g) })
}

func layerOf(pkg string) (layer, error) {
	var best layer
	for _, l := range layers {
		if below(pkg, l.prefix) && len(l.prefix) > len(best.prefix) {
			best = l
		}
	}
	if best.prefix == "" {
		return best, fmt.Errorf("%s belongs to no layer", pkg)
	}
	return best, nil
}

func below(path, prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }

// projectImports returns the imports of every package, without those of tests.
func projectImports(t *testing.T) map[string][]string {
	t.Helper()
	out, err := listImports()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("the go command is not on the PATH")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := out["cmd/aicplan"]; !ok || len(out) < 20 {
		t.Fatalf("go list found %d packages: too few, or not the program", len(out))
	}
	return out
}

var listImports = sync.OnceValues(func() (map[string][]string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "list", "-e", "--json=ImportPath,Imports", "./cmd/aicplan/...", "./cudaops/...",
		"./engine/...",
		"./plans/...", "./sink/...", "./stages/...", "./systems/...")
	cmd.Dir = filepath.Dir(filepath.Dir(wd))
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOPROXY=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	data, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w\n%s", cmd.Dir, err, stderr.String())
	}
	out := map[string][]string{}
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		out[strings.TrimPrefix(p.ImportPath, "aicplan/")] = p.Imports
	}
})

// comparesKind finds comparisons of a kind with its name.
var comparesKind = regexp.MustCompile(`Kind(\.Name)? *[!=]= *"[^"]|switch [^{]*\.Kind(\.Name)? *\{`)

// comparesRuntime finds comparisons of a runtime's kind with its name.
var comparesRuntime = regexp.MustCompile(`\b(rt|[rR]untime)\.Kind *[!=]= *"`)

// TestNoKindByName checks that the engine and the views use the class of stage kinds, and that only the file
// of a runtime kind uses its name.
func TestNoKindByName(t *testing.T) {
	t.Parallel()
	root := repoRoot(t)
	if !comparesKind.MatchString(`s.Instance.Kind.Name != "grid"`) ||
		!comparesKind.MatchString("switch s.Instance.Kind.Name {") ||
		!comparesRuntime.MatchString(`c.runtime.Kind == "cpu"`) {
		t.Fatal("the patterns find nothing")
	}
	for _, dir := range []string{"engine", "stages", "cudaops", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for i, line := range strings.Split(string(src), "\n") {
				view := dir == "engine" || dir == "cmd" || strings.HasPrefix(rel, filepath.Join("stages", "report"))
				if view && comparesKind.MatchString(line) || comparesRuntime.MatchString(line) {
					t.Errorf("%s:%d compares a kind with a name; give the kind a flag: %s", rel, i+1, strings.TrimSpace(line))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
