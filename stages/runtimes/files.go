package runtimes

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/load"
	"aicplan/engine/stage"
)

// promptFiles returns the files that the prompts of a load come from. If one of them cannot be read, it returns the
// others and an error.
func promptFiles(rt *stage.Runtime, planDir string, blocks map[string]cty.Value) ([]string, error) {
	dir := declaredIn(rt, planDir)
	path := func(name string) string { return absolute(dir, textAt(blocks["load"], name)) }
	return load.InputFiles(path("trace"), path("dataset"))
}

// loadProblem returns what is wrong with the files of the prompts, or "". It is the Problem of endpoints.
func loadProblem(rt *stage.Runtime, blocks map[string]cty.Value) string {
	if _, err := promptFiles(rt, "", blocks); err != nil {
		return err.Error()
	}
	return ""
}

// loadFiles returns the files that a load is made of: those of the prompts and the tokenizer.
func loadFiles(rt *stage.Runtime, planDir string, blocks map[string]cty.Value) []string {
	dir := declaredIn(rt, planDir)
	out, _ := promptFiles(rt, planDir, blocks) // Problem reports the error
	if path := textAt(rt.Options["tokenizer"]); path != "" {
		path = absolute(dir, path)
		if isDir(path) {
			path = filepath.Join(path, "tokenizer.json")
		}
		out = append(out, path)
	}
	return out
}

// maxProgram bounds the size of files that count as a part of a server's command. Larger ones are data, such as
// weights, and are distinguished by name.
const maxProgram = 16 << 20

// serverFiles returns the files of the load, and the files that the command of the server names: its program, unless
// it is found through PATH, and scripts below the plan's folder.
func serverFiles(rt *stage.Runtime, planDir string, blocks map[string]cty.Value) []string {
	out := loadFiles(rt, planDir, blocks)
	dir := declaredIn(rt, planDir)
	work := absolute(dir, textAt(rt.Options["dir"]))
	for i, word := range textsAt(rt.Options["command"]) {
		text := strings.ReplaceAll(word, "{plan_dir}", dir)
		if !strings.ContainsRune(text, filepath.Separator) || strings.Contains(text, "{") ||
			filepath.IsAbs(text) && i > 0 && !strings.HasPrefix(text, dir+string(filepath.Separator)) {
			continue
		}
		for _, path := range []string{absolute(work, text), text} {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() <= maxProgram {
				out = append(out, path)
				break
			}
		}
	}
	return out
}
