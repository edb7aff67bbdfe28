package runtimes

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"aicplan/engine/stage"
)

// Source is the file with the function of an op, as it is now.
type Source struct {
	Name   string // without its folder
	Digest string // the beginning of the SHA-256 of its bytes, as hex
}

// String is how records keep it.
func (s Source) String() string { return s.Name + " " + s.Digest }

// pythonSource finds the file that a worker of a python runtime will take an
// op's function from: the one that the binding names, else the one in the
// runtime's path that defines it. It reads files alone. It is false for
// collectors of a checkout and functions of installed modules, and where there
// is no such file: then the worker says what is wrong.
func pythonSource(rt *stage.Runtime, planDir, op string, bind any) (Source, bool) {
	b, _ := bind.(map[string]any)
	for _, word := range []string{"run", "module"} {
		if _, ok := b[word]; ok {
			return Source{}, false
		}
	}
	dir := declaredIn(rt, Place{PlanDir: planDir})
	var paths []string
	for _, p := range rt.Path {
		paths = append(paths, absolute(dir, p))
	}
	if name, ok := b["file"].(string); ok {
		return sourceNamed(name, paths)
	}
	if name, ok := b["function"].(string); ok {
		op = name
	}
	return sourceDefining(op, paths)
}

// sourceNamed looks where the worker does: in the folder that it works in,
// which is this program's, then in the runtime's path.
func sourceNamed(name string, paths []string) (Source, bool) {
	for _, dir := range append([]string{""}, paths...) {
		if s, _, ok := readSource(absolute(dir, name)); ok {
			return s, true
		}
	}
	return Source{}, false
}

// sourceDefining finds the first file with a function of that name, at its top
// level, that takes bench. Workers refuse a second one.
func sourceDefining(function string, paths []string) (Source, bool) {
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
			s, text, ok := readSource(f)
			if ok && slices.ContainsFunc(head.FindAllStringIndex(text, -1), func(at []int) bool { return takesBench(text[at[1]:]) }) {
				return s, true
			}
		}
	}
	return Source{}, false
}

var benchWord = regexp.MustCompile(`\bbench\b`)

// takesBench says whether the parameters that text begins with, up to the
// parenthesis that ends them, have one called bench.
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

func readSource(path string) (Source, string, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Source{}, "", false
	}
	sum := sha256.Sum256(data)
	return Source{Name: filepath.Base(path), Digest: hex.EncodeToString(sum[:8])}, string(data), true
}
