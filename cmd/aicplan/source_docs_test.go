package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"aicplan/sink/base/textutil"
	"aicplan/sink/tree"
)

// sourceDocs has the comments that describe the language of plans.
type sourceDocs struct {
	// elements has the comments above the elements of schemas and lists, by the variable or the name of
	// the enclosing literal: "gridSchema.op", "gate.passed".
	elements map[string]string
	order    map[string][]string // names of the elements, in the order of the source
	// structs and comments have the structs and the comments above them by "package.Type", and by the
	// name of the type alone.
	structs  map[string]*ast.StructType
	comments map[string]string
}

// describedFolders are the packages whose comments describe attributes.
var describedFolders = []string{"stages/*", "engine/config", "engine/grid", "engine/plantest", "engine/stage",
	"cudaops/doctor", "cudaops/ops"}

func readDocs(t *testing.T, root string) *sourceDocs {
	t.Helper()
	d := &sourceDocs{elements: map[string]string{}, order: map[string][]string{}, structs: map[string]*ast.StructType{},
		comments: map[string]string{}}
	for _, folder := range describedFolders {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(files), err)
		}
		for _, path := range files {
			if !strings.HasSuffix(path, "_test.go") {
				d.file(t, path)
			}
		}
	}

	return d
}

// file adds the comments of a file.
func (d *sourceDocs) file(t *testing.T, path string) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}

	above := map[int]string{} // comments by the line below them
	for _, c := range f.Comments {
		above[set.Position(c.End()).Line+1] = c.Text()
	}

	var walk func(n ast.Node, name string)
	walk = func(n ast.Node, name string) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					d.structs[n.Name.Name] = s
					d.structs[f.Name.Name+"."+n.Name.Name] = s
					d.comments[f.Name.Name+"."+n.Name.Name] = above[set.Position(n.Pos()).Line]
				}
			case *ast.ValueSpec:
				for i, v := range n.Values {
					walk(v, n.Names[i].Name)
				}
				return false
			case *ast.FuncDecl:
				if n.Body != nil {
					walk(n.Body, n.Name.Name)
				}
				return false
			case *ast.CompositeLit:
				inside := name
				if own := nameOf(n); own != "" {
					inside = own
				}
				for _, e := range n.Elts {
					if own := nameOf(e); own != "" {
						key := inside + "." + own
						if d.elements[key] == "" {
							d.elements[key] = above[set.Position(e.Pos()).Line]
							d.order[inside] = append(d.order[inside], own)
						}
					}
					walk(e, inside)
				}
				return false
			}
			return true
		})
	}
	walk(f, "")
}

// nameOf returns the text of a string, the key of an element if it is a string, or the Name or Type of a
// struct; otherwise "".
func nameOf(e ast.Node) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.KeyValueExpr:
		if _, ok := e.Key.(*ast.BasicLit); ok {
			return nameOf(e.Key)
		}
	case *ast.CompositeLit:
		for _, x := range e.Elts {
			kv, ok := x.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			if id, ok := kv.Key.(*ast.Ident); ok && (id.Name == "Name" || id.Name == "Type") {
				return nameOf(kv.Value)
			}
		}
	}
	return ""
}

// literals returns rows for the elements of a variable that have comments, in the order of the source.
func (d *sourceDocs) literals(variable, prefix string) []attribute {
	var out []attribute
	for _, name := range d.order[variable] {
		if comment := d.elements[variable+"."+name]; comment != "" {
			out = append(out, described(comment, name, prefix+name, "string", ""))
		}
	}
	return out
}

// fields returns rows for the fields of a struct that have a tag of the key, and of the structs of its
// blocks. config has the defaults; it may be nil.
func (d *sourceDocs) fields(t *testing.T, typ string, config any, key, prefix string) []attribute {
	t.Helper()
	s := d.structs[typ]
	if s == nil {
		t.Fatalf("there is no struct %s", typ)
	}

	pkg, _, qualified := strings.Cut(typ, ".")
	var out []attribute
	for _, f := range s.Fields.List {
		if f.Tag == nil || len(f.Names) != 1 {
			continue
		}
		text, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			t.Fatal(err)
		}
		name, use, _ := strings.Cut(reflect.StructTag(text).Get(key), ",")
		if name == "" || name == "-" || use == "label" {
			continue
		}

		def := ""
		if config != nil {
			def = defaultText(reflect.Indirect(reflect.ValueOf(config)).FieldByName(f.Names[0].Name))
		}
		if use == "" && key == "hcl" {
			def = "required"
		}
		doc := f.Doc.Text()
		out = append(out, described(doc, f.Names[0].Name, prefix+name, fieldType(f.Type), def))

		inner := strings.TrimLeft(exprText(f.Type), "*[]")
		if qualified {
			inner = pkg + "." + inner
		}
		if d.structs[inner] != nil && (use == "block" || key == "json" && strings.HasPrefix(exprText(f.Type), "[]K")) {
			out = append(out, d.fields(t, inner, nil, key, prefix+name+".")...)
		}
	}

	return out
}

// typeOf returns the name by which structs has the type of a value.
func typeOf(config any) string { return reflect.Indirect(reflect.ValueOf(config)).Type().String() }

// defaultText returns a value as a plan writes it, or "" for a value that no plan can write.
func defaultText(v reflect.Value) string {
	if !v.IsValid() {
		return ""
	}
	switch x := v.Interface().(type) {
	case tree.Layout:
		return defaultText(reflect.ValueOf(string(x)))
	case string:
		if x != "" {
			return "`\"" + x + "\"`"
		}
	case []string:
		if len(x) > 0 {
			return "`[\"" + strings.Join(x, "\", \"") + "\"]`"
		}
	case int:
		return textutil.Count(x)
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(x)
	}
	return ""
}

func exprText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return "*" + exprText(e.X)
	case *ast.ArrayType:
		return "[]" + exprText(e.Elt)
	case *ast.MapType:
		return "map " + exprText(e.Value)
	case *ast.SelectorExpr:
		return exprText(e.X) + "." + e.Sel.Name
	}
	return ""
}

// fieldType returns the type of a field as plans name it.
func fieldType(e ast.Expr) string {
	text := strings.TrimPrefix(exprText(e), "*")
	if inner, ok := strings.CutPrefix(text, "[]"); ok {
		if inner == "string" || inner == "int" || inner == "Number" {
			return "list of " + fieldTypes[inner] + "s"
		}
		return "block"
	}
	if inner, ok := strings.CutPrefix(text, "map "); ok {
		return "map of " + fieldTypes[inner] + "s"
	}
	if name := fieldTypes[text]; name != "" {
		return name
	}
	return "block"
}

var fieldTypes = map[string]string{
	"tree.Layout": "string",
	"string":      "string", "DType": "string", "bool": "bool", "int": "number", "int64": "number", "float64": "number",
	"Number": "number", "cty.Value": "reference", "hcl.Expression": "expression",
}

var (
	commentType    = regexp.MustCompile(`^\(([^)]*)\):? `)
	commentDefault = regexp.MustCompile(`(?s)^(.*?)\s*The default is (.+?)\.?$`)
)

// described returns a row from a comment. The comment may begin with the name, and then with the type in
// parentheses, and may end with a sentence "The default is X."
func described(comment, name, shown, typ, def string) attribute {
	text := strings.Join(strings.Fields(comment), " ")
	text = strings.TrimPrefix(text, name+" ")
	if m := commentType.FindStringSubmatch(text); m != nil {
		typ, text = m[1], strings.TrimPrefix(text, m[0])
	}
	text = strings.TrimPrefix(strings.TrimPrefix(text, "is "), "are ")
	if m := commentDefault.FindStringSubmatch(text); m != nil && def != "required" {
		text, def = m[1], markQuotes(m[2])
	}

	switch {
	case def == "required" && typ != "block":
		typ += ", required"
	case def != "" && def != "required":
		typ += ", default " + def
	}
	return attribute{"`" + shown + "`", typ, markQuotes(strings.TrimSuffix(text, "."))}
}
