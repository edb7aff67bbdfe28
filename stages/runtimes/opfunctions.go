package runtimes

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"aicplan/engine/stage"
)

// topFunction is a public function at the top of a Python file.
var topFunction = regexp.MustCompile(`(?m)^def[ \t]+([A-Za-z]\w*)[ \t]*\(`)

// Paths are the files and folders of a runtime's path, from the folder of the file
// that the runtime's block is in.
func Paths(rt *stage.Runtime, planDir string) []string {
	dir := declaredIn(rt, Place{PlanDir: planDir})
	out := make([]string, len(rt.Path))
	for i, p := range rt.Path {
		out[i] = absolute(dir, p)
	}
	return out
}

// OpFunctions are the functions in the files of a Python runtime's path that
// workers take for ops, and whether name is one of them. The files are not run. What
// cannot be read is left to the workers: the answer is then that it is found.
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
			data, err := os.ReadFile(f)
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
