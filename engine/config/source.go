package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"aicplan/sink/base/fileutil"
)

// autoVarsSuffix is the suffix of variable files next to a plan that are loaded automatically.
const autoVarsSuffix = ".auto.aicvars.hcl"

// TestSuffix is the suffix of files with plan tests. They are not part of the plan.
const TestSuffix = ".aictest.hcl"

// sources parses each file once and keeps the text for snippets.
type sources struct {
	parser *hclparse.Parser
	flags  map[string]*hcl.File // texts that are not files, by display name
}

func newSources() *sources {
	return &sources{parser: hclparse.NewParser(), flags: map[string]*hcl.File{}}
}

// display returns the file name for diagnostics: relative to the current folder, unless that needs
// more than one "..".
func display(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && !strings.HasPrefix(rel, ".."+string(filepath.Separator)+"..") {
		return rel
	}

	return path
}

// text registers a text that is not in a file, such as the value of a flag, and returns a range for
// diagnostics.
func (s *sources) text(name, text string) hcl.Range {
	s.flags[name] = &hcl.File{Bytes: []byte(text)}
	end := hcl.Pos{Line: 1, Column: 1 + utf8.RuneCountInString(text), Byte: len(text)}
	return hcl.Range{Filename: name, Start: hcl.InitialPos, End: end}
}

// snippet returns the source text of a range.
func (s *sources) snippet(r hcl.Range) string {
	f := s.all()[r.Filename]
	if f == nil || !r.CanSliceBytes(f.Bytes) {
		return ""
	}
	return string(r.SliceBytes(f.Bytes))
}

// comment returns the comment after a block or, if there is none, the lines of comment directly above it.
func (s *sources) comment(b *hclsyntax.Block) string {
	f := s.parser.Files()[b.TypeRange.Filename]
	if f == nil {
		return ""
	}

	after, _, _ := bytes.Cut(f.Bytes[b.CloseBraceRange.End.Byte:], []byte("\n"))
	if text, ok := bytes.CutPrefix(bytes.TrimSpace(after), []byte("#")); ok {
		return string(bytes.TrimSpace(text))
	}

	var lines []string
	above := bytes.TrimSuffix(f.Bytes[:b.TypeRange.Start.Byte], []byte("\n"))
	for len(above) > 0 {
		start := bytes.LastIndexByte(above, '\n') + 1
		text, ok := bytes.CutPrefix(above[start:], []byte("#"))
		if !ok {
			break
		}
		lines = append(lines, string(bytes.TrimSpace(text)))
		above = above[:max(0, start-1)]
	}

	slices.Reverse(lines)
	return strings.Join(lines, " ")
}

// all returns the files and texts by name.
func (s *sources) all() map[string]*hcl.File {
	out := maps.Clone(s.parser.Files())
	maps.Copy(out, s.flags)
	return out
}

func (s *sources) file(path string) (*hcl.File, hcl.Diagnostics) {
	name := display(path)
	if f, ok := s.parser.Files()[name]; ok {
		return f, nil
	}

	src, err := fileutil.ReadText(path)
	if err != nil {
		return nil, errorAt(startOf(name), "Cannot read the file", "%s.", reason(err))
	}
	if diags := TooDeep(src, name); diags.HasErrors() {
		return nil, diags
	}

	f, diags := s.parser.ParseHCL(src, name)
	return f, firstError(diags)
}

// firstError keeps only the first error of a file that HCL cannot parse, and all warnings. Later
// errors are unreliable.
func firstError(diags hcl.Diagnostics) hcl.Diagnostics {
	found := false
	return slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool {
		later := found && d.Severity == hcl.DiagError
		found = found || d.Severity == hcl.DiagError
		return later
	})
}

// ParseFile parses a file in the plan language that is not a plan. Diagnostics show the path
// relative to the current folder.
func ParseFile(path string) (*hcl.File, hcl.Diagnostics) {
	return newSources().file(path)
}

// reason returns the text of a file error without the file name, which the diagnostic already
// shows.
func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// besides suggests plans in the same folder if path does not exist.
func besides(path string, err error) string {
	if !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	dir := filepath.Dir(path)
	files, err := planFiles(dir)
	if err != nil {
		return ""
	}

	names := make([]string, len(files))
	for i, f := range files {
		names[i] = filepath.Base(f)
	}

	return didYouMean(filepath.Base(path), names)
}

// startOf returns the place of errors about a file as a whole.
func startOf(name string) hcl.Range {
	return hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
}

// planFiles returns the files of the module at path: the file itself, or all plan files of a folder
// sorted by name.
func planFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}

	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}

	var out []string
	for _, e := range entries {
		n := e.Name()
		if !e.IsDir() && strings.HasSuffix(n, ".hcl") && !strings.HasSuffix(n, ".aicvars.hcl") &&
			!strings.HasSuffix(n, TestSuffix) && !strings.HasPrefix(n, ".") {
			out = append(out, filepath.Join(path, n))
		}
	}

	if len(out) == 0 {
		return nil, fmt.Errorf("the folder %s has no .hcl file", display(path))
	}

	sort.Strings(out)
	return out, nil
}

func autoVarFiles(dir string) []string {
	found, _ := fileutil.Glob(cmp.Or(dir, "."), "*"+autoVarsSuffix) // the pattern is valid
	return found
}

// syntaxBody returns the native-syntax body of a file.
func syntaxBody(f *hcl.File) *hclsyntax.Body { return f.Body.(*hclsyntax.Body) }
