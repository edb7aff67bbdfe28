package runtimes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

// OpFile identifies the source code that an op is measured with: the file with its function or
// collector, and the files that it imports from the same folder.
type OpFile struct {
	Name string // of the first file, without its folder
	// Digest is the start of the hexadecimal SHA-256 of the files' meaning; see meaning. Modules of the
	// interpreter and of installed packages are not included, because the journal has their versions.
	Digest string
	// Files are the names of the files relative to their root.
	Files []string
}

// String returns the format for journals.
func (s OpFile) String() string { return s.Name + " " + s.Digest }

// Source returns the source code that a worker of a python runtime measures an op with. This is
// the file in the binding, the module in the binding, or the first file in the runtime's path that
// defines the function. version is the framework's version, for bindings with versions. The files are
// only read. The result is false for functions of installed modules and if there is no such file; the
// worker reports the error then.
func (*onPython) Source(rt *stage.Runtime, planDir, op string, bind any, version string) (OpFile, bool) {
	b, _ := bind.(map[string]any)
	dir := declaredIn(rt, Place{PlanDir: planDir})
	var paths []string
	for _, p := range rt.Path {
		paths = append(paths, absolute(dir, p))
	}

	if h, ok := HostedOp(op, bind); ok {
		root := absolute(dir, rt.CollectorRoot)
		if root == "" {
			return OpFile{}, false
		}
		// The worker replaces the module helper with its own.
		c := closure{roots: []string{filepath.Join(root, "collector"), root}, without: []string{"helper", "collector.helper"}}
		for _, m := range h.route(b, version) {
			c.module(m, "")
		}
		return c.source()
	}

	c := closure{roots: folders(paths)}
	if module, ok := b["module"].(string); ok {
		if _, named := b["file"]; !named {
			c.module(module, "")
			return c.source()
		}
	}

	if name, ok := b["file"].(string); ok {
		path, ok := fileNamed(name, paths)
		if !ok {
			return OpFile{}, false
		}
		c.file(path)
		return c.source()
	}

	if name, ok := b["function"].(string); ok {
		op = name
	}

	path, ok := fileDefining(op, paths)
	if !ok {
		return OpFile{}, false
	}

	c.file(path)
	return c.source()
}

// route returns the module for a version of the framework, or all modules if the version does not select
// one.
func (h Hosted) route(bind map[string]any, version string) []string {
	routes, _ := bind["versions"].([]any)
	best, module := "", ""
	for _, r := range routes {
		route, _ := r.(map[string]any)
		least, _ := route["min"].(string)
		name, _ := route["module"].(string)
		if version == "" || least == "" || Satisfies(version, ">="+least) != nil {
			continue
		}
		if best == "" || Satisfies(least, ">="+best) == nil {
			best, module = least, name
		}
	}

	if module != "" {
		return []string{module}
	}

	return h.Modules
}

// folders returns the folders in which imports of op functions are searched.
func folders(paths []string) []string {
	var out []string
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil && !info.IsDir() {
			p = filepath.Dir(p)
		}
		out = append(out, p)
	}
	return out
}

// closure collects files and their imports.
type closure struct {
	roots   []string
	without []string // modules that the worker replaces
	files   []string // in order of discovery
	seen    map[string]bool
}

// module adds the files of a module and of its parent packages. from is the folder of the importing
// file, for relative imports. It reports whether the module was found.
func (c *closure) module(name, from string) bool {
	if slices.Contains(c.without, name) {
		return false
	}

	roots := c.roots
	if from != "" {
		roots = append([]string{from}, roots...)
	}

	if rest := strings.TrimLeft(name, "."); rest != name {
		up := from
		for range len(name) - len(rest) - 1 {
			up = filepath.Dir(up)
		}
		name, roots = rest, []string{up}
	}

	parts := strings.Split(name, ".")
	for _, root := range roots {
		at, found := root, false
		var files []string
		for i, part := range parts {
			if part == "" {
				found = isFile(filepath.Join(at, "__init__.py"))
				break
			}

			at = filepath.Join(at, part)
			last := i == len(parts)-1
			switch init := filepath.Join(at, "__init__.py"); {
			case isFile(init):
				files, found = append(files, init), found || last
			case last && isFile(at+".py"):
				files, found = append(files, at+".py"), true
			case last:
				built := extensions(at)
				files, found = append(files, built...), len(built) > 0
			}
		}

		if !found {
			continue
		}

		for _, f := range files {
			c.file(f)
		}

		return true
	}

	return false
}

// extensions returns the shared libraries of an extension module, such as at.so and
// at.cpython-311-x86_64-linux-gnu.so, one for each interpreter.
func extensions(at string) []string {
	entries, err := os.ReadDir(filepath.Dir(at)) // sorted by name
	if err != nil {
		return nil
	}

	var out []string
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), filepath.Base(at)+"."); ok &&
			(rest == "so" || strings.HasSuffix(rest, ".so")) {
			out = append(out, filepath.Join(filepath.Dir(at), e.Name()))
		}
	}

	return out
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// file adds a file and its imports.
func (c *closure) file(path string) {
	path = filepath.Clean(path)
	if c.seen[path] {
		return
	}

	code, ok := readCode(path)
	if !ok {
		return
	}

	if c.seen == nil {
		c.seen = map[string]bool{}
	}

	c.seen[path] = true
	c.files = append(c.files, path)
	dir := filepath.Dir(path)
	for _, imp := range code.imports {
		c.module(imp.module, dir)
		for _, name := range imp.names { // a name may be a module
			if strings.HasSuffix(imp.module, ".") {
				c.module(imp.module+name, dir)
			} else {
				c.module(imp.module+"."+name, dir)
			}
		}
	}
}

// source returns the digest of the collected files. It returns false if there are none.
func (c *closure) source() (OpFile, bool) {
	if len(c.files) == 0 {
		return OpFile{}, false
	}

	s := OpFile{Name: filepath.Base(c.files[0])}
	byName := map[string]string{}
	for _, f := range c.files {
		code, ok := readCode(f)
		if !ok {
			return OpFile{}, false
		}
		byName[c.relative(f)] = code.digest
	}

	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		s.Files = append(s.Files, name)
		// Digest relative names, because the checkout or folder may be moved.
		fmt.Fprintf(h, "%s %s\n", name, byName[name])
	}

	s.Digest = hex.EncodeToString(h.Sum(nil)[:8])
	return s, true
}

// relative returns the path of a file relative to its root.
func (c *closure) relative(path string) string {
	best := filepath.Base(path)
	for _, root := range c.roots {
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) && len(rel) >= len(best) {
			best = rel
		}
	}
	return filepath.ToSlash(best)
}

// code is the digest and the imports of one file.
type code struct {
	digest  string // of its meaning
	imports []imported
}

// read caches files by path until they change. The collectors of a plan share most of their imports.
var read sync.Map

type readFile struct {
	size  int64
	mtime time.Time
	code  code
}

func readCode(path string) (code, bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return code{}, false
	}

	if known, ok := read.Load(path); ok {
		// A recent file may change again without a new modification time.
		if k := known.(readFile); k.size == info.Size() && k.mtime.Equal(info.ModTime()) &&
			time.Since(k.mtime) > 2*time.Second {
			return k.code, true
		}
	}

	data, err := fileutil.ReadText(path)
	if err != nil {
		return code{}, false
	}

	c := code{digest: shortSum(data)}
	if !strings.HasSuffix(path, ".so") {
		text := meaning(string(data))
		c.digest, c.imports = shortSum([]byte(text)), importsOf(text)
	}

	read.Store(path, readFile{info.Size(), info.ModTime(), c})
	return c, true
}

func shortSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// fileNamed searches a file like the worker: in the working directory, then in the runtime's path.
func fileNamed(name string, paths []string) (string, bool) {
	for _, dir := range append([]string{""}, paths...) {
		if path := absolute(dir, name); isFile(path) {
			return path, true
		}
	}
	return "", false
}

// fileDefining returns the first file with a top-level function of that name that takes bench. Workers
// reject a second one.
func fileDefining(function string, paths []string) (string, bool) {
	head := regexp.MustCompile(`(?m)^def[ \t]+` + regexp.QuoteMeta(function) + `[ \t]*\(`)
	for _, p := range paths {
		files := []string{p}
		if info, err := os.Stat(p); err == nil && info.IsDir() {
			entries, err := os.ReadDir(p) // sorted by name
			if err != nil {
				continue
			}
			files = nil
			for _, e := range entries {
				if strings.HasSuffix(e.Name(), ".py") {
					files = append(files, filepath.Join(p, e.Name()))
				}
			}
		}

		for _, f := range files {
			data, err := fileutil.ReadText(f)
			text := string(data)
			if err == nil && slices.ContainsFunc(head.FindAllStringIndex(text, -1),
				func(at []int) bool { return takesBench(text[at[1]:]) }) {
				return f, true
			}
		}
	}

	return "", false
}

var benchWord = regexp.MustCompile(`\bbench\b`)

// takesBench reports whether a parameter list, up to its closing parenthesis, contains bench.
func takesBench(text string) bool {
	open := 1
	for i, c := range text {
		switch c {
		case '(', '[', '{':
			open++
		case ')', ']', '}':
			open--
		}
		if open == 0 {
			return benchWord.MatchString(text[:i])
		}
	}

	return false
}
