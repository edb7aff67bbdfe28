package runtimes

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

// topFunction matches a public function at the top level of a Python file.
var topFunction = regexp.MustCompile(`(?m)^def[ \t]+([A-Za-z]\w*)[ \t]*\(`)

// Paths returns the files and folders of a runtime's path. Relative paths start at the folder of the
// file with the runtime's block.
func Paths(rt *stage.Runtime, planDir string) []string {
	dir := declaredIn(rt, Place{PlanDir: planDir})
	out := make([]string, len(rt.Path))
	for i, p := range rt.Path {
		out[i] = absolute(dir, p)
	}
	return out
}

// OpFunctions returns the functions in a Python runtime's path that are usable as ops, and whether name
// is one of them. The files are not executed. If a file cannot be read, found is true and the workers
// report the error.
func OpFunctions(rt *stage.Runtime, planDir, name string) (have []string, found bool) {
	for _, p := range Paths(rt, planDir) {
		files := []string{p}
		info, err := os.Stat(files[0])
		if err != nil {
			return nil, true
		}

		if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(files[0], "*.py")); err != nil {
				return nil, true
			}
		}

		for _, f := range files {
			data, err := fileutil.ReadText(f)
			if err != nil {
				return nil, true
			}
			text := string(data)
			for _, at := range topFunction.FindAllStringSubmatchIndex(text, -1) {
				if takesBench(text[at[1]:]) {
					have = append(have, text[at[2]:at[3]])
				}
			}
		}
	}

	slices.Sort(have)
	have = slices.Compact(have)
	return have, slices.Contains(have, name)
}
