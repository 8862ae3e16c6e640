// Writes messages.tsv, enums.tsv and methods.tsv from the protobuf descriptors compiled into the Hadoop jars.
// Run (class path from ../harness/hdfs classpath):
//   java -cp "$CP" DumpWire.java OUTDIR JAR...
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.lang.annotation.Annotation;
import java.lang.reflect.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.jar.*;
import org.apache.hadoop.ipc.ProtocolInfo;
import org.apache.hadoop.thirdparty.protobuf.BlockingService;
import org.apache.hadoop.thirdparty.protobuf.ByteString;
import org.apache.hadoop.thirdparty.protobuf.Descriptors.*;

public class DumpWire {
  static String esc(String s) {
    return s.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n");
  }

  static String def(FieldDescriptor f) {
    if (!f.hasDefaultValue()) return "";
    Object v = f.getDefaultValue();
    if (v instanceof EnumValueDescriptor) return ((EnumValueDescriptor) v).getName();
    if (v instanceof ByteString) return "bytes:" + ((ByteString) v).toStringUtf8();
    if (f.getType() == FieldDescriptor.Type.STRING) return "\"" + esc(v.toString()) + "\"";
    // java holds uint32/uint64 signed; print what the .proto says
    if (f.getType() == FieldDescriptor.Type.UINT64 || f.getType() == FieldDescriptor.Type.FIXED64)
      return Long.toUnsignedString((Long) v);
    if (f.getType() == FieldDescriptor.Type.UINT32 || f.getType() == FieldDescriptor.Type.FIXED32)
      return Integer.toUnsignedString((Integer) v);
    return v.toString();
  }

  // local name inside the package: Outer.Inner
  static String local(FileDescriptor fd, String full) {
    String p = fd.getPackage();
    return p.isEmpty() ? full : full.substring(p.length() + 1);
  }

  static void walk(Descriptor m, List<Descriptor> out) {
    out.add(m);
    for (Descriptor n : m.getNestedTypes()) walk(n, out);
  }

  static void reach(Descriptor m, Set<Descriptor> seen, Set<EnumDescriptor> enums) {
    if (!seen.add(m)) return;
    for (FieldDescriptor f : m.getFields()) {
      if (f.getJavaType() == FieldDescriptor.JavaType.MESSAGE) reach(f.getMessageType(), seen, enums);
      if (f.getJavaType() == FieldDescriptor.JavaType.ENUM) enums.add(f.getEnumType());
    }
  }

  public static void main(String[] a) throws Exception {
    Path out = Paths.get(a[0]);
    TreeMap<String, FileDescriptor> files = new TreeMap<>();
    TreeMap<String, String> outer = new TreeMap<>();
    // service full name -> "java protocol name \t version"
    TreeMap<String, String> proto = new TreeMap<>();
    int skipped = 0;
    for (int i = 1; i < a.length; i++) {
      try (JarFile jf = new JarFile(a[i])) {
        for (JarEntry e : Collections.list(jf.entries())) {
          String n = e.getName();
          if (!n.endsWith(".class") || n.contains("$") || !n.startsWith("org/apache/hadoop/")) continue;
          String cn = n.substring(0, n.length() - 6).replace('/', '.');
          String base = cn.substring(cn.lastIndexOf('.') + 1);
          if (!(base.endsWith("Protos") || base.endsWith("Proto") || base.endsWith("PB"))) continue;
          Class<?> c;
          try { c = Class.forName(cn, false, DumpWire.class.getClassLoader()); }
          catch (Throwable t) { skipped++; System.err.println("skip " + cn + " " + t); continue; }
          ProtocolInfo pi = c.getAnnotation(ProtocolInfo.class);
          if (pi != null) {
            for (Class<?> itf : allInterfaces(c)) {
              if (!itf.getSimpleName().equals("BlockingInterface")) continue;
              Class<?> svc = itf.getEnclosingClass();
              try {
                ServiceDescriptor sd = (ServiceDescriptor) svc.getMethod("getDescriptor").invoke(null);
                if (itf == directBlocking(c)) proto.put(sd.getFullName(), pi.protocolName() + "\t" + pi.protocolVersion());
              } catch (NoSuchMethodException x) { }
            }
            continue;
          }
          try {
            Method g = c.getDeclaredMethod("getDescriptor");
            if (g.getReturnType() == FileDescriptor.class) {
              FileDescriptor fd = (FileDescriptor) g.invoke(null);
              files.put(fd.getName(), fd);
              outer.put(fd.getName(), cn);
            }
          } catch (NoSuchMethodException x) {
          } catch (NoClassDefFoundError x) { // generated against the unshaded protobuf 2.5 (legacy engine)
            skipped++;
            System.err.println("skip " + cn + " " + x.getMessage());
          }
        }
      }
    }
    int nm = 0, nf = 0, ne = 0, nv = 0, ns = 0, nmeth = 0;
    Set<Descriptor> all = new HashSet<>(), seen = new HashSet<>();
    Set<EnumDescriptor> alle = new HashSet<>(), seene = new HashSet<>();
    try (PrintWriter pm = w(out, "messages.tsv"); PrintWriter pe = w(out, "enums.tsv");
         PrintWriter ps = w(out, "methods.tsv"); PrintWriter pf = w(out, "files.tsv")) {
      pm.print("proto_file\tpackage\tmessage\tfield\tnumber\tlabel\ttype\tdefault\toptions\n");
      pe.print("proto_file\tpackage\tenum\tvalue_name\tnumber\n");
      ps.print("service\tprotocol_name\tprotocol_version\tmethod\trequest\tresponse\n");
      pf.print("proto_file\tpackage\tsyntax\touter_class\tmessages\tenums\tservices\timports\n");
      for (FileDescriptor fd : files.values()) {
        String head = fd.getName() + "\t" + fd.getPackage() + "\t";
        List<Descriptor> ms = new ArrayList<>();
        for (Descriptor m : fd.getMessageTypes()) walk(m, ms);
        List<EnumDescriptor> es = new ArrayList<>(fd.getEnumTypes());
        for (Descriptor m : ms) es.addAll(m.getEnumTypes());
        for (Descriptor m : ms) {
          all.add(m);
          nm++;
          String mn = local(fd, m.getFullName());
          if (m.getFields().isEmpty()) pm.print(head + mn + "\t\t\t\t\t\t\n");
          List<FieldDescriptor> fs = new ArrayList<>(m.getFields());
          fs.sort(Comparator.comparingInt(FieldDescriptor::getNumber));
          for (FieldDescriptor f : fs) {
            nf++;
            String t = f.getType().name().toLowerCase(Locale.ROOT);
            if (f.getJavaType() == FieldDescriptor.JavaType.MESSAGE) t += ":" + f.getMessageType().getFullName();
            if (f.getJavaType() == FieldDescriptor.JavaType.ENUM) t += ":" + f.getEnumType().getFullName();
            String label = f.isRequired() ? "required" : f.isRepeated() ? "repeated" : "optional";
            List<String> o = new ArrayList<>();
            if (f.isPacked()) o.add("packed");
            if (f.getOptions().getDeprecated()) o.add("deprecated");
            if (f.getContainingOneof() != null) o.add("oneof=" + f.getContainingOneof().getName());
            if (f.isMapField()) o.add("map");
            pm.print(head + mn + "\t" + f.getName() + "\t" + f.getNumber() + "\t" + label + "\t" + t + "\t" + def(f)
                + "\t" + String.join(",", o) + "\n");
          }
        }
        for (EnumDescriptor en : es) {
          ne++;
          alle.add(en);
          for (EnumValueDescriptor v : en.getValues()) {
            nv++;
            pe.print(head + local(fd, en.getFullName()) + "\t" + v.getName() + "\t" + v.getNumber() + "\n");
          }
        }
        for (ServiceDescriptor sd : fd.getServices()) {
          ns++;
          String p = proto.getOrDefault(sd.getFullName(), "\t");
          for (MethodDescriptor md : sd.getMethods()) {
            nmeth++;
            ps.print(sd.getFullName() + "\t" + p + "\t" + md.getName() + "\t" + md.getInputType().getFullName() + "\t"
                + md.getOutputType().getFullName() + "\n");
            reach(md.getInputType(), seen, seene);
            reach(md.getOutputType(), seen, seene);
          }
        }
        List<String> deps = new ArrayList<>();
        for (FileDescriptor d : fd.getDependencies()) {
          deps.add(d.getName());
          if (!files.containsKey(d.getName())) System.err.println("dependency not dumped: " + d.getName());
        }
        pf.print(head + syntax(fd) + "\t" + outer.get(fd.getName()) + "\t" + ms.size() + "\t" + es.size() + "\t"
            + fd.getServices().size() + "\t" + String.join(",", deps) + "\n");
      }
    }
    Set<Descriptor> missing = new HashSet<>(seen);
    missing.removeAll(all);
    Set<EnumDescriptor> missinge = new HashSet<>(seene);
    missinge.removeAll(alle);
    System.out.println("files=" + files.size() + " messages=" + nm + " fields=" + nf + " enums=" + ne + " enum_values=" + nv
        + " services=" + ns + " methods=" + nmeth + " classes_skipped=" + skipped);
    System.out.println("reachable_from_methods messages=" + seen.size() + " missing=" + missing.size() + " enums="
        + seene.size() + " missing=" + missinge.size());
    if (!missing.isEmpty() || !missinge.isEmpty()) System.exit(1);
  }

  static String syntax(FileDescriptor fd) {
    String s = fd.toProto().getSyntax();
    return s.isEmpty() ? "proto2" : s;
  }

  static Set<Class<?>> allInterfaces(Class<?> c) {
    Set<Class<?>> s = new LinkedHashSet<>();
    for (Class<?> i : c.getInterfaces()) { s.add(i); s.addAll(allInterfaces(i)); }
    return s;
  }

  static Class<?> directBlocking(Class<?> c) {
    for (Class<?> i : c.getInterfaces()) if (i.getSimpleName().equals("BlockingInterface")) return i;
    return null;
  }

  static PrintWriter w(Path d, String n) throws IOException {
    return new PrintWriter(new OutputStreamWriter(Files.newOutputStream(d.resolve(n)), StandardCharsets.UTF_8));
  }
}
