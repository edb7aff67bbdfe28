package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"aicplan/engine/stage"
)

// impure are functions of other languages that read external state. Plans do not have them.
var impure = []string{"env", "getenv", "file", "fileexists", "fileset", "templatefile", "filebase64", "timestamp",
	"timeadd", "uuid", "random", "now", "abspath", "pathexpand"}

var functionName = regexp.MustCompile(`no function named "([^"]+)"`)

// hinted returns a copy of an HCL diagnostic with a hint for users who are used to another
// language.
func hinted(d *hcl.Diagnostic, files map[string]*hcl.File) *hcl.Diagnostic {
	out := *d
	switch d.Summary {
	case "Missing newline after argument":
		switch next := textAt(d, files); {
		case strings.HasPrefix(next, "=") && !strings.HasPrefix(next, "=="):
			out.Detail += " If this compares, write == instead of =."
		case operator.MatchString(next):
			out.Detail += " Conditions are joined by && and ||, and ! is not."
		}

	case "Call to unknown function":
		if m := functionName.FindStringSubmatch(d.Detail); m != nil && slices.Contains(impure, m[1]) {
			out.Detail = fmt.Sprintf(
				"There is no function named %q: plans read no environment, file or clock, so that the same plan means the same "+
					"cases everywhere. Give what it would read as a variable, with --var or %sNAME.",
				m[1],
				EnvPrefix,
			)
		} else if m != nil {
			names := slices.Sorted(maps.Keys(Functions()))
			if longer := slices.DeleteFunc(slices.Clone(names),
				func(n string) bool { return !strings.HasPrefix(n, m[1]) }); len(longer) > 0 {
				names = longer[:1]
			}
			out.Detail = fmt.Sprintf("There is no function named %q.%s", m[1], didYouMean(m[1], names))
		}

	case "Unsupported argument":
		if strings.Contains(d.Detail, `"count"`) && !strings.Contains(d.Detail, "Did you mean") {
			out.Detail += " Several instances of a block come from for_each, such as for_each = toset([\"a\", \"b\"])."
		}

	case "Argument or block definition required":
		f := files[subjectFile(d)]
		line, _, _ := strings.Cut(textAt(d, files), "\n")
		switch {
		case f == nil:
		case strings.HasPrefix(strings.TrimSpace(string(f.Bytes)), "{"):
			out.Detail = "This looks like JSON. Plans are written in HCL: name = value, and kind \"name\" { ... }."
		case strings.Contains(line, ":"):
			out.Detail = "A value is set by name = value, and a block is kind \"name\" { ... }; there is no colon in either."
		}

	case "Invalid operand":
		if strings.HasSuffix(d.Detail, "a number is required.") {
			out.Detail += " Text is joined as \"${a}${b}\", and compared with == and !=."
		}

	case "Invalid character":
		if strings.Contains(d.Detail, "Single quotes") {
			out.Detail = "Single quotes are not valid. Text stands in double quotes: \"text\"."
		}

	case "Invalid type specification":
		out.Detail += " Types are string, number, bool, any, and list(...), set(...), map(...), tuple([...]) and object({ " +
			"... }) of them."
	}

	return &out
}

var unexpectedName = regexp.MustCompile(
	`^(An argument named|Blocks of type) "([^"]+)" (is|are) not expected here\.( Did you mean "[^"]+"\?)?$`)

// suggestNearest replaces HCL's suggestions for unknown names in body, which are the first name that differs by at most
// two letters. block is the key of body in words.
func suggestNearest(diags hcl.Diagnostics, body *hclsyntax.Body, block string, words stage.Vocabulary) {
	names := slices.DeleteFunc(slices.Clone(words[block]), func(n string) bool { return body.Attributes[n] != nil })
	for _, b := range body.Blocks {
		key := b.Type
		if len(b.Labels) > 0 && words[key+" "+b.Labels[0]] != nil {
			key += " " + b.Labels[0]
		}
		suggestNearest(diags, b.Body, key, words)
	}

	for _, d := range diags {
		m := unexpectedName.FindStringSubmatch(d.Detail)
		if m == nil || d.Subject == nil {
			continue
		}

		a := body.Attributes[m[2]]
		if a != nil && a.NameRange == *d.Subject || slices.ContainsFunc(body.Blocks, func(b *hclsyntax.Block) bool {
			return b.TypeRange == *d.Subject
		}) {
			d.Detail = fmt.Sprintf("%s %q %s not expected here.%s", m[1], m[2], m[3], didYouMean(m[2], names))
		}
	}
}

var operator = regexp.MustCompile(`^(and|or|not)\b`)

func subjectFile(d *hcl.Diagnostic) string {
	if d.Subject == nil {
		return ""
	}
	return d.Subject.Filename
}

// textAt returns the source text that begins at a diagnostic, or "" if the file is unknown.
func textAt(d *hcl.Diagnostic, files map[string]*hcl.File) string {
	f := files[subjectFile(d)]
	if f == nil || d.Subject.Start.Byte > len(f.Bytes) {
		return ""
	}
	return string(f.Bytes[d.Subject.Start.Byte:])
}
