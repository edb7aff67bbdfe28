package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
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
		switch next := after(d, files); {
		case strings.HasPrefix(next, "=") && !strings.HasPrefix(next, "=="):
			out.Detail += " If this compares, write == instead of =."
		case operator.MatchString(next):
			out.Detail += " Conditions are joined by && and ||, and ! is not."
		}

	case "Call to unknown function":
		if m := functionName.FindStringSubmatch(d.Detail); m != nil && slices.Contains(impure, m[1]) {
			out.Detail = fmt.Sprintf("There is no function named %q: plans read no environment, file or clock, so that the same plan means the same cases everywhere. Give what it would read as a variable, with --var or %sNAME.", m[1], envPrefix)
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
		switch text := fileOf(d, files); {
		case strings.HasPrefix(strings.TrimSpace(text), "{"):
			out.Detail = "This looks like JSON. Plans are written in HCL: name = value, and kind \"name\" { ... }."
		case strings.HasPrefix(after(d, files), ":") || strings.Contains(lineOf(d, text), ":"):
			out.Detail = "A value is set by name = value, and a block is kind \"name\" { ... }; there is no colon in either."
		}

	case "Invalid operand":
		if textual(d.Expression) && strings.Contains(d.Detail, "a number is required") {
			out.Detail = "Operators take numbers. Text is joined as \"${a}${b}\", and compared with == and !=."
		}

	case "Invalid character":
		if strings.Contains(d.Detail, "Single quotes") {
			out.Detail = "Single quotes are not valid. Text stands in double quotes: \"text\"."
		}

	case "Invalid type specification":
		out.Detail += " Types are string, number, bool, any, and list(...), set(...), map(...), tuple([...]) and object({ ... }) of them."
	}

	return &out
}

// textual reports whether an expression is a template, or an operation with a template as operand.
func textual(e hcl.Expression) bool {
	switch e := e.(type) {
	case *hclsyntax.TemplateExpr, *hclsyntax.TemplateWrapExpr:
		return true
	case *hclsyntax.BinaryOpExpr:
		return textual(e.LHS) || textual(e.RHS)
	}
	return false
}

// fileOf returns the text of the file that a diagnostic is about, or "".
func fileOf(d *hcl.Diagnostic, files map[string]*hcl.File) string {
	if d.Subject == nil || files[d.Subject.Filename] == nil {
		return ""
	}
	return string(files[d.Subject.Filename].Bytes)
}

// lineOf returns the line of text that a diagnostic is about, or "".
func lineOf(d *hcl.Diagnostic, text string) string {
	lines := strings.Split(text, "\n")
	if n := d.Subject.Start.Line; n >= 1 && n <= len(lines) {
		return lines[n-1]
	}
	return ""
}

var operator = regexp.MustCompile(`^(and|or|not)\b`)

// after returns up to 8 bytes of source text at the start of a diagnostic, or "" if the file is
// unknown.
func after(d *hcl.Diagnostic, files map[string]*hcl.File) string {
	if d.Subject == nil || files[d.Subject.Filename] == nil {
		return ""
	}
	text := files[d.Subject.Filename].Bytes
	if at := d.Subject.Start.Byte; at >= 0 && at < len(text) {
		return string(text[at:min(len(text), at+8)])
	}

	return ""
}
