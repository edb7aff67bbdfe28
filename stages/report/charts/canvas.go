package charts

import (
	"fmt"
	"html"
	"image"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// Ink is a colour by name: "axis" draws strokes with the class s-axis and
// fills with f-axis.
type Ink string

// RGBA implements color.Color with a grey, for canvases without classes.
func (Ink) RGBA() (r, g, b, a uint32) { return 0x6000, 0x6000, 0x6000, 0xffff }

// Canvas collects SVG elements. One unit of it, a point of vg, is a pixel of
// the view box. The output depends on nothing but the calls.
type Canvas struct {
	w, h  float64
	out   strings.Builder
	stack []state
	// Strokes and fills of one style that follow each other share a path.
	pending pathStyle
	path    strings.Builder
}

type state struct {
	color color.Color
	width float64
	dash  string
	// x' = a x + c y + e, y' = b x + d y + f, in vg's upward coordinates.
	a, b, c, d, e, f float64
}

type pathStyle struct {
	class, paint, width, dash string
	fill                      bool
}

// NewCanvas makes a canvas of that many units.
func NewCanvas(w, h float64) *Canvas {
	return &Canvas{w: w, h: h, stack: []state{{color: color.Black, width: 1, a: 1, d: 1}}}
}

// Size implements vg.CanvasSizer.
func (c *Canvas) Size() (vg.Length, vg.Length) { return vg.Length(c.w), vg.Length(c.h) }

// Elements returns what was drawn, without the svg element around it.
func (c *Canvas) Elements() string {
	c.flush()
	return c.out.String()
}

// Write adds elements as they are.
func (c *Canvas) Write(elements string) {
	c.flush()
	c.out.WriteString(elements)
}

func (c *Canvas) now() *state { return &c.stack[len(c.stack)-1] }

// SetLineWidth implements vg.Canvas.
func (c *Canvas) SetLineWidth(w vg.Length) { c.now().width = w.Points() }

// SetLineDash implements vg.Canvas.
func (c *Canvas) SetLineDash(pattern []vg.Length, _ vg.Length) {
	parts := make([]string, len(pattern))
	for i, p := range pattern {
		parts[i] = Num(p.Points())
	}
	c.now().dash = strings.Join(parts, " ")
}

// SetColor implements vg.Canvas.
func (c *Canvas) SetColor(clr color.Color) {
	if clr == nil {
		clr = color.Black
	}
	c.now().color = clr
}

// Rotate implements vg.Canvas.
func (c *Canvas) Rotate(rad float64) {
	s, sin, cos := c.now(), math.Sin(rad), math.Cos(rad)
	s.a, s.b, s.c, s.d = s.a*cos+s.c*sin, s.b*cos+s.d*sin, s.c*cos-s.a*sin, s.d*cos-s.b*sin
}

// Translate implements vg.Canvas.
func (c *Canvas) Translate(p vg.Point) {
	s := c.now()
	s.e += s.a*p.X.Points() + s.c*p.Y.Points()
	s.f += s.b*p.X.Points() + s.d*p.Y.Points()
}

// Scale implements vg.Canvas.
func (c *Canvas) Scale(x, y float64) {
	s := c.now()
	s.a, s.b, s.c, s.d = s.a*x, s.b*x, s.c*y, s.d*y
}

// Push implements vg.Canvas.
func (c *Canvas) Push() { c.stack = append(c.stack, *c.now()) }

// Pop implements vg.Canvas.
func (c *Canvas) Pop() { c.stack = c.stack[:len(c.stack)-1] }

// At is a point of vg in the coordinates of the SVG, whose y grows downwards.
func (c *Canvas) At(p vg.Point) (x, y float64) {
	s := c.now()
	px, py := p.X.Points(), p.Y.Points()
	return s.a*px + s.c*py + s.e, c.h - (s.b*px + s.d*py + s.f)
}

// Stroke implements vg.Canvas.
func (c *Canvas) Stroke(p vg.Path) {
	s := c.now()
	if s.width <= 0 {
		return
	}
	c.add(pathStyle{class: "s-", width: Num(s.width), dash: s.dash}, p)
}

// Fill implements vg.Canvas.
func (c *Canvas) Fill(p vg.Path) { c.add(pathStyle{class: "f-", fill: true}, p) }

func (c *Canvas) add(style pathStyle, p vg.Path) {
	if ink, ok := c.now().color.(Ink); ok {
		style.class += string(ink)
	} else {
		style.class, style.paint = "", hex(c.now().color)
	}

	if style != c.pending {
		c.flush()
		c.pending = style
	}

	for _, comp := range p {
		c.component(comp)
	}
}

func (c *Canvas) component(comp vg.PathComp) {
	x, y := c.At(comp.Pos)
	switch comp.Type {
	case vg.MoveComp:
		fmt.Fprintf(&c.path, "M%s %s", Num(x), Num(y))
	case vg.LineComp:
		fmt.Fprintf(&c.path, "L%s %s", Num(x), Num(y))
	case vg.CloseComp:
		c.path.WriteByte('Z')
	case vg.CurveComp:
		word := "Q"
		if len(comp.Control) == 2 {
			word = "C"
		}

		for _, p := range comp.Control {
			cx, cy := c.At(p)
			word += Num(cx) + " " + Num(cy) + " "
		}

		c.path.WriteString(word + Num(x) + " " + Num(y))
	case vg.ArcComp:
		c.arc(comp)
	}
}

// arc draws an arc in pieces of at most half a turn.
func (c *Canvas) arc(comp vg.PathComp) {
	at := func(angle float64) (float64, float64) {
		return c.At(vg.Point{X: comp.Pos.X + comp.Radius*vg.Length(math.Cos(angle)),
			Y: comp.Pos.Y + comp.Radius*vg.Length(math.Sin(angle))})
	}

	r := Num(comp.Radius.Points() * math.Hypot(c.now().a, c.now().b))
	sweep := "0" // upward angles turn the other way round in SVG
	if comp.Angle < 0 {
		sweep = "1"
	}

	x, y := at(comp.Start)
	fmt.Fprintf(&c.path, "L%s %s", Num(x), Num(y))

	pieces := max(1, int(math.Ceil(math.Abs(comp.Angle)/(0.999*math.Pi))))
	for i := 1; i <= pieces; i++ {
		x, y = at(comp.Start + comp.Angle*float64(i)/float64(pieces))
		fmt.Fprintf(&c.path, "A%s %s 0 0 %s %s %s", r, r, sweep, Num(x), Num(y))
	}
}

// flush writes the pending path.
func (c *Canvas) flush() {
	d := c.path.String()
	c.path.Reset()
	style := c.pending
	c.pending = pathStyle{}

	if d == "" {
		return
	}

	if !style.fill && strings.HasPrefix(d, "L") || strings.HasPrefix(d, "A") {
		d = "M" + d[1:]
	}

	c.out.WriteString("<path")

	switch {
	case style.class != "":
		fmt.Fprintf(&c.out, ` class="%s"`, style.class)
	case style.fill:
		fmt.Fprintf(&c.out, ` fill="%s"`, style.paint)
	default:
		fmt.Fprintf(&c.out, ` fill="none" stroke="%s"`, style.paint)
	}

	if style.width != "" && style.width != "1" {
		fmt.Fprintf(&c.out, ` stroke-width="%s"`, style.width)
	}

	if style.dash != "" {
		fmt.Fprintf(&c.out, ` stroke-dasharray="%s"`, style.dash)
	}

	fmt.Fprintf(&c.out, ` d="%s"/>`, d)
}

// FillString implements vg.Canvas.
func (c *Canvas) FillString(f font.Face, p vg.Point, text string) {
	size := f.Font.Size.Points()
	if size == 0 || text == "" {
		return
	}

	c.flush()
	x, y := c.At(p)
	fmt.Fprintf(&c.out, `<text x="%s" y="%s"`, Num(x), Num(y))

	if size != 11 {
		fmt.Fprintf(&c.out, ` font-size="%s"`, Num(size))
	}

	if angle := math.Atan2(c.now().b, c.now().a); math.Abs(angle) > 1e-6 {
		fmt.Fprintf(&c.out, ` transform="rotate(%s %s %s)"`, Num(-angle*180/math.Pi), Num(x), Num(y))
	}

	if ink, ok := c.now().color.(Ink); ok {
		fmt.Fprintf(&c.out, ` class="f-%s"`, ink)
	} else {
		fmt.Fprintf(&c.out, ` fill="%s"`, hex(c.now().color))
	}

	fmt.Fprintf(&c.out, ">%s</text>", html.EscapeString(text))
}

// DrawImage implements vg.Canvas. Charts of reports have no images; drawing one
// is a mistake of the program.
func (c *Canvas) DrawImage(vg.Rectangle, image.Image) {
	panic("svg: charts of reports are drawn without images")
}

// Num writes a coordinate with one decimal, in the shortest way.
func Num(v float64) string {
	s := strconv.FormatFloat(v, 'f', 1, 64)
	s = strings.TrimSuffix(s, ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

func hex(clr color.Color) string {
	r, g, b, _ := clr.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}
