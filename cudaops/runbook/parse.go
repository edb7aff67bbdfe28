// Package runbook runs blocks of Markdown pages, so that the pages are tested. The blocks are marked with
// the comments used in AIPerf's documentation: setup-NAME-endpoint-server,
// health-check-NAME-endpoint-server and aiperf-run-NAME-endpoint-server.
package runbook

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"aicplan/sink/base/fileutil"
)

// Kind is the purpose of a block.
type Kind string

// Kinds of blocks. The value is the prefix of the tag.
const (
	Setup  Kind = "setup"
	Health Kind = "health-check"
	Run    Kind = "aiperf-run"
	File   Kind = "setup-file"
)

// kinds in the order in which prefixes are tried.
var kinds = []Kind{File, Setup, Health, Run}

const suffix = "endpoint-server"

// Block is one marked block.
type Block struct {
	Kind Kind `json:"kind"`

	// Tag is the first word of the comment.
	Tag string `json:"tag"`

	// Place is file:line of the opening comment.
	Place string `json:"place"`

	// Text is the code between the opening and the closing comment. Fences is the number of fenced blocks
	// that were joined.
	Text   string `json:"text"`
	Fences int    `json:"fences"`

	// Attributes follow the tag, for example path=FILE.
	Attributes map[string]string `json:"attributes,omitempty"`
}

// Server contains all blocks of one server.
type Server struct {
	Name   string  `json:"name"`
	Setup  *Block  `json:"setup"`
	Health *Block  `json:"health_check"`
	Runs   []Block `json:"runs"`
	Files  []Block `json:"files,omitempty"`
}

// Blocks returns the blocks in the order in which they are run.
func (s *Server) Blocks() []Block {
	return slices.Concat(s.Files, []Block{*s.Setup, *s.Health}, s.Runs)
}

var comment = regexp.MustCompile(`^<!--\s*(/?[^\s>]+)((?:\s+[A-Za-z_]+=\S+)*)\s*-->$`)

// Parse parses pages. The error joins all mistakes, each with its position.
func Parse(files []string) ([]Server, error) {
	var blocks []Block
	var wrong []error
	for _, name := range files {
		b, err := page(name)
		blocks = append(blocks, b...)
		if err != nil {
			wrong = append(wrong, err)
		}
	}

	servers, err := assemble(blocks)
	if err != nil {
		wrong = append(wrong, err)
	}

	return servers, errors.Join(wrong...)
}

// maxLine limits the length of a line in bytes.
const maxLine = 1 << 20

// page parses the blocks of one file.
func page(name string) ([]Block, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fileutil.Explain("read", name, err)
	}
	defer f.Close()
	var out []Block
	var wrong []error
	var open *Block
	fence, bash := "", false
	var text []string
	n := 0
	bad := func(line int, format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("%s:%d: %s", name, line, fmt.Sprintf(format, args...)))
	}

	s := bufio.NewScanner(f)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		n++
		line := s.Text()
		trimmed := strings.TrimSpace(line)

		if fence != "" {
			if strings.HasPrefix(trimmed, fence) && strings.Trim(trimmed, fence[:1]) == "" {
				fence = ""
				if open != nil && bash {
					open.Fences++
				}
			} else if open != nil && bash {
				text = append(text, line)
			}
			continue
		}

		if mark := fenceOf(trimmed); mark != "" {
			fence = mark
			language, _, _ := strings.Cut(strings.TrimLeft(trimmed, mark[:1]), " ")
			bash = language == "bash" || language == "sh" || language == "shell" || open != nil && open.Kind == File
			continue
		}

		m := comment.FindStringSubmatch(trimmed)
		if m == nil {
			continue
		}

		tag, closing := strings.CutPrefix(m[1], "/")
		kind, ok := kindOf(tag)
		if !ok {
			continue
		}

		switch {
		case closing && (open == nil || open.Tag != tag):
			bad(n, "<!-- /%s --> closes what is not open", tag)

		case closing:
			open.Text = strings.Join(text, "\n")
			if open.Fences == 0 {
				bad(n, "%s has no ```bash block", tag)
			} else {
				out = append(out, *open)
			}
			open = nil

		case open != nil:
			bad(n, "%s begins inside %s (%s), which is not closed", tag, open.Tag, open.Place)

		default:
			open = &Block{Kind: kind, Tag: tag, Place: fmt.Sprintf("%s:%d", name, n), Attributes: attributes(m[2])}
			text = nil
			if kind == File && open.Attributes["path"] == "" {
				bad(n, "%s needs path=FILE", tag)
			}
		}
	}

	if err := s.Err(); err != nil {
		bad(n+1, "%v", err)
	}

	if open != nil {
		wrong = append(wrong, fmt.Errorf("%s: %s is not closed; add <!-- /%s -->", open.Place, open.Tag, open.Tag))
	}

	return out, errors.Join(wrong...)
}

// fenceOf returns the mark that opens a fenced block, or "" if the line opens none.
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 {
			return strings.Repeat(c, n)
		}
	}
	return ""
}

func kindOf(tag string) (Kind, bool) {
	if !strings.HasSuffix(tag, suffix) {
		return "", false
	}

	for _, k := range kinds {
		if strings.HasPrefix(tag, string(k)+"-") {
			return k, true
		}
	}
	return "", false
}

func attributes(text string) map[string]string {
	var out map[string]string
	for _, item := range strings.Fields(text) {
		name, value, _ := strings.Cut(item, "=")
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out
}

// assemble groups blocks by server, in order of appearance. It returns an error for duplicate and missing
// blocks.
func assemble(blocks []Block) ([]Server, error) {
	var out []Server
	var first []string // the place of each server's first block
	var wrong []error

	for _, b := range blocks {
		name := strings.TrimSuffix(strings.TrimPrefix(b.Tag, string(b.Kind)+"-"), suffix)
		name = strings.TrimSuffix(name, "-")
		i := slices.IndexFunc(out, func(s Server) bool { return s.Name == name })
		if i < 0 {
			i = len(out)
			out, first = append(out, Server{Name: name}), append(first, b.Place)
		}

		s := &out[i]
		one := map[Kind]**Block{Setup: &s.Setup, Health: &s.Health}[b.Kind]
		switch {
		case one != nil && *one != nil:
			wrong = append(wrong, fmt.Errorf("%s: %s is there twice; the first is at %s", b.Place, b.Tag, (*one).Place))
		case one != nil:
			*one = &b
		case b.Kind == Run:
			s.Runs = append(s.Runs, b)
		case b.Kind == File:
			s.Files = append(s.Files, b)
		}
	}

	for i, s := range out {
		for _, k := range []struct {
			kind  Kind
			there bool
		}{{Setup, s.Setup != nil}, {Health, s.Health != nil}, {Run, len(s.Runs) > 0}} {
			if !k.there {
				wrong = append(wrong, fmt.Errorf("%s: server %s has no block %s-%s-%s", first[i], s.Name, k.kind, s.Name, suffix))
			}
		}
	}

	return out, errors.Join(wrong...)
}
