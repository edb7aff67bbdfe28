package runtimes

import (
	"cmp"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

// opEntry is the Entry of python. The file of an op is the one in the binding, the module in the binding, or the first
// file in the runtime's path that defines the function. version is the framework's version, for bindings
// with versions. The files are only searched. The result is false for functions of installed modules and if
// there is no such file; the worker reports the error then.
func opEntry(rt *stage.Runtime, planDir, op string, bind any, version string) (Entry, bool) {
	b, _ := bind.(map[string]any)
	paths := Paths(rt, planDir)

	if h, ok := HostedOp(op, bind); ok {
		root := absolute(declaredIn(rt, planDir), rt.CollectorRoot)
		e := Entry{Roots: []string{filepath.Join(root, "collector"), root}}
		for _, m := range h.route(b, version) {
			if path := filepath.Join(root, h.file(m)); root != "" && isFile(path) {
				e.Files = append(e.Files, path)
			}
		}
		return e, len(e.Files) > 0
	}

	file, _ := b["file"].(string)
	module, _ := b["module"].(string)
	function, _ := b["function"].(string)
	path := ""
	switch {
	case file != "":
		path = fileNamed(file, paths)
	case module == "":
		path = fileDefining(cmp.Or(function, op), paths)
	}
	if path == "" {
		return Entry{}, false
	}

	path, _ = filepath.Abs(path)
	return Entry{Files: []string{path}, Roots: []string{filepath.Dir(path)}}, true
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

// Paths returns the files and folders of a runtime's path. Relative paths start at the folder of the
// file with the runtime's block.
func Paths(rt *stage.Runtime, planDir string) []string {
	dir := declaredIn(rt, planDir)
	var out []string
	for _, p := range rt.Path {
		out = append(out, absolute(dir, p))
	}
	return out
}

// OpFunctions returns the functions in a Python runtime's path that are usable as ops, and whether name
// is one of them. The files are not executed. If a file cannot be read, found is true and the workers
// report the error.
func OpFunctions(rt *stage.Runtime, planDir, name string) (have []string, found bool) {
	for f, functions := range opFunctions(Paths(rt, planDir)) {
		if f == "" {
			return nil, true
		}
		have = append(have, functions...)
	}

	slices.Sort(have)
	have = slices.Compact(have)
	return have, slices.Contains(have, name)
}

// fileNamed searches a file like the worker: in the working directory, then in the runtime's path. It returns "" if
// there is none.
func fileNamed(name string, paths []string) string {
	for _, dir := range append([]string{""}, paths...) {
		if path := absolute(dir, name); isFile(path) {
			return path
		}
	}
	return ""
}

// fileDefining returns the first file with a top-level function of that name that takes bench, or "". Workers
// reject a second one.
func fileDefining(function string, paths []string) string {
	for f, functions := range opFunctions(paths) {
		if slices.Contains(functions, function) {
			return f
		}
	}
	return ""
}

// opFunctions returns the functions in each Python file of paths. The name of a file that cannot be read is "".
func opFunctions(paths []string) iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		for _, p := range paths {
			files, err := pythonFiles(p)
			if err != nil {
				files = []string{p}
			}
			for _, f := range files {
				functions, err := functionsIn(f)
				if err != nil {
					f = ""
				}
				if !yield(f, functions) {
					return
				}
			}
		}
	}
}

// pythonFiles returns a file, or the Python files in a folder, sorted by name.
func pythonFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	return fileutil.Glob(path, "*.py")
}

var (
	// topFunction matches a public function at the top level of a Python file.
	topFunction = regexp.MustCompile(`(?m)^def[ \t]+([A-Za-z]\w*)[ \t]*\(`)
	benchWord   = regexp.MustCompile(`\bbench\b`)
)

// functionsIn returns the functions in a Python file that take bench.
func functionsIn(path string) ([]string, error) {
	data, err := fileutil.ReadText(path)
	if err != nil {
		return nil, err
	}

	var out []string
	text := strings.TrimPrefix(withoutComments(string(data)), "\ufeff")
	for _, at := range topFunction.FindAllStringSubmatchIndex(text, -1) {
		if takesBench(text[at[1]:]) {
			out = append(out, text[at[2]:at[3]])
		}
	}
	return out, nil
}

// takesBench reports whether a parameter list, up to its closing parenthesis, contains bench. text has no
// comments.
func takesBench(text string) bool {
	open, list := 1, ""
	for i := 0; i < len(text) && open > 0; i++ {
		switch text[i] {
		case '(', '[', '{':
			open++
		case ')', ']', '}':
			open--
		case '"', '\'':
			i += stringEnd(text[i:]) - 1
			continue
		}
		list += text[i : i+1]
	}
	return open == 0 && benchWord.MatchString(list)
}
