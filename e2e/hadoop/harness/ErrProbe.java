// Asks the NameNode at fs.defaultFS of HADOOP_CONF_DIR for 140 things, most of them wrong, and prints what comes back,
// a header and then one case a line:
//   case TAB exception class, OK, or LOCAL and the client's own exception TAB RPC error code, empty without a remote
//   exception TAB first line of the message or of the result
// ../wire/errors.tsv is its output against the stock 3.4.2 NameNode with one DataNode, started with
// dfs.namenode.fs-limits.min-block-size=1024. It wants an empty name space and the superuser's name as user.name.
//   export HADOOP_CONF_DIR=DIR/conf; java -cp "$(./hdfs classpath)" ErrProbe.java
import java.net.URI; import java.util.*;
import org.apache.hadoop.conf.*; import org.apache.hadoop.fs.*; import org.apache.hadoop.fs.permission.*; import org.apache.hadoop.hdfs.*; import org.apache.hadoop.hdfs.protocol.*; import org.apache.hadoop.io.*; import org.apache.hadoop.ipc.*; import org.apache.hadoop.security.*; import org.apache.hadoop.hdfs.client.HdfsDataOutputStream;
import java.security.PrivilegedExceptionAction;
public class ErrProbe {
 interface Op { Object run() throws Exception; }
 static void t(String n, Op o) { try { Object r=o.run(); row(n,"OK","",r!=null&&r.getClass().isArray()?"array":r); }
  catch (Throwable e) { RemoteException x=remote(e);
   if (x!=null) row(n,x.getClassName(),x.getErrorCode(),x.getMessage()); else row(n,"LOCAL "+e.getClass().getName(),"",e.getMessage()); } }
 static RemoteException remote(Throwable e) { // the client's output stream hides it as the cause of an exception of its own
  for (; e!=null; e=e.getCause()) if (e instanceof RemoteException) return (RemoteException)e; return null; }
 static void row(String n, String result, Object code, Object text) {
  String l=String.valueOf(text).lines().findFirst().orElse("");
  System.out.println(n+"\t"+result+"\t"+code+"\t"+l.replaceAll("BP-[^:]+","BP").replaceAll("@[0-9a-f]+$","").replaceAll("a{9,}","aaa..")); }
 static ClientProtocol proxy(Configuration c, String user) throws Exception {
  return UserGroupInformation.createRemoteUser(user).doAs((PrivilegedExceptionAction<ClientProtocol>)() -> NameNodeProxiesClient.createProxyWithClientProtocol(c, FileSystem.getDefaultUri(c), null).getProxy()); }
 /** A set-up step: where the server cannot do it yet, says so on stderr and goes on, so that the other rows still count. */
 static boolean s(String what, Op o) { try { o.run(); return true; } catch (Throwable e) { System.err.println("ErrProbe: set-up failed: "+what+": "+e.getMessage()); return false; } }
 /** A file of 1000 bytes, or an empty one where the server has no data path yet. */
 static void file(DistributedFileSystem fs, String path) { if (!s("data in "+path,()->{DFSTestUtil.createFile(fs,new Path(path),1000,(short)1,1L); return null;})) s("empty "+path,()->{fs.create(new Path(path),true).close(); return null;}); }

 public static void main(String[] a) throws Exception {
  String dir=System.getenv("HADOOP_CONF_DIR"); if (dir==null) { System.err.println("ErrProbe: HADOOP_CONF_DIR is not set"); System.exit(2); }
  Configuration c=new HdfsConfiguration(); c.addResource(new Path(dir,"core-site.xml")); c.addResource(new Path(dir,"hdfs-site.xml"));
  System.out.println("case\tresult\terror_code\tfirst_line");
  ClientProtocol r=proxy(c,System.getProperty("user.name")), b=proxy(c,"bob");
  DistributedFileSystem fs=(DistributedFileSystem)FileSystem.get(c);
  FsPermission p=new FsPermission((short)0755);
  EnumSetWritable<CreateFlag> cr=new EnumSetWritable<>(EnumSet.of(CreateFlag.CREATE)), ov=new EnumSetWritable<>(EnumSet.of(CreateFlag.CREATE,CreateFlag.OVERWRITE)), ap=new EnumSetWritable<>(EnumSet.of(CreateFlag.APPEND));
  org.apache.hadoop.crypto.CryptoProtocolVersion[] cv=org.apache.hadoop.crypto.CryptoProtocolVersion.supported();
  file(fs,"/e/f"); file(fs,"/e/g"); fs.mkdirs(new Path("/e/d/x")); fs.mkdirs(new Path("/e/empty"));
  t("getFileInfo missing",()->r.getFileInfo("/nope"));
  t("getFileInfo under file",()->r.getFileInfo("/e/f/x"));
  t("getFileInfo relative",()->r.getFileInfo("e"));
  t("getListing missing",()->r.getListing("/nope",new byte[0],false));
  t("getListing file",()->r.getListing("/e/f",new byte[0],false));
  t("getListing bad startAfter",()->r.getListing("/e","zzz".getBytes(),false).getPartialListing().length);
  t("getBlockLocations missing",()->r.getBlockLocations("/nope",0,10));
  t("getBlockLocations dir",()->r.getBlockLocations("/e",0,10));
  t("mkdirs over file",()->r.mkdirs("/e/f",p,true));
  t("mkdirs under file",()->r.mkdirs("/e/f/x",p,true));
  t("mkdirs noparent",()->r.mkdirs("/nope/x",p,false));
  t("mkdirs existing",()->r.mkdirs("/e",p,true));
  t("mkdirs invalid ..",()->r.mkdirs("/e/../x",p,true));
  t("mkdirs colon",()->r.mkdirs("/e/a:b",p,true));
  t("mkdirs root",()->r.mkdirs("/",p,true));
  t("mkdirs reserved",()->r.mkdirs("/.reserved/x",p,true));
  t("mkdirs long component",()->r.mkdirs("/"+"a".repeat(300),p,true));
  t("mkdirs long path",()->r.mkdirs("/"+"a/".repeat(5000),p,true));
  t("mkdirs perm denied",()->b.mkdirs("/zz",p,true));
  t("create exists",()->r.create("/e/f",p,"c1",cr,true,(short)1,1048576,cv,null,null));
  t("create on dir",()->r.create("/e/d",p,"c1",ov,true,(short)1,1048576,cv,null,null));
  t("create noparent",()->r.create("/nope/f",p,"c1",cr,false,(short)1,1048576,cv,null,null));
  t("create under file",()->r.create("/e/f/x",p,"c1",cr,true,(short)1,1048576,cv,null,null));
  t("create small block",()->r.create("/e/sb",p,"c1",cr,true,(short)1,512,cv,null,null));
  t("create repl 0",()->r.create("/e/r0",p,"c1",cr,true,(short)0,1048576,cv,null,null));
  t("create repl 600",()->r.create("/e/r0",p,"c1",cr,true,(short)600,1048576,cv,null,null));
  t("create perm",()->b.create("/e/bob",p,"c1",cr,true,(short)1,1048576,cv,null,null));
  t("create uc1",()->r.create("/e/uc",p,"c1",cr,true,(short)1,1048576,cv,null,null).getFileId());
  t("create uc again same client",()->r.create("/e/uc",p,"c1",cr,true,(short)1,1048576,cv,null,null));
  t("create uc overwrite other client",()->r.create("/e/uc2",p,"c2",ov,true,(short)1,1048576,cv,null,null).getFileId());
  t("create uc other client no overwrite",()->r.create("/e/uc",p,"c2",cr,true,(short)1,1048576,cv,null,null));
  t("create uc overwrite",()->r.create("/e/uc",p,"c2",ov,true,(short)1,1048576,cv,null,null).getFileId());
  t("append to uc other client",()->r.append("/e/uc","c3",ap));
  t("append to uc same client",()->r.append("/e/uc","c2",ap));
  t("append dir",()->r.append("/e","c3",ap));
  t("append missing",()->r.append("/nope","c3",ap));
  t("addBlock wrong client",()->r.addBlock("/e/uc","c9",null,null,HdfsConstants.GRANDFATHER_INODE_ID,null,EnumSet.noneOf(AddBlockFlag.class)));
  t("addBlock closed file",()->r.addBlock("/e/f","c9",null,null,HdfsConstants.GRANDFATHER_INODE_ID,null,EnumSet.noneOf(AddBlockFlag.class)));
  t("addBlock missing",()->r.addBlock("/nope","c9",null,null,HdfsConstants.GRANDFATHER_INODE_ID,null,EnumSet.noneOf(AddBlockFlag.class)));
  t("addBlock bad fileid",()->r.addBlock("/e/uc","c2",null,null,999999,null,EnumSet.noneOf(AddBlockFlag.class)));
  DatanodeInfo[][] live={new DatanodeInfo[0]}; s("getDatanodeReport",()->live[0]=r.getDatanodeReport(HdfsConstants.DatanodeReportType.LIVE)); DatanodeInfo[] dns=live[0];
  t("addBlock all excluded",()->r.addBlock("/e/uc","c2",null,dns,HdfsConstants.GRANDFATHER_INODE_ID,null,EnumSet.noneOf(AddBlockFlag.class)));
  LocatedBlock[] lb=new LocatedBlock[1];
  t("addBlock ok",()->(lb[0]=r.addBlock("/e/uc","c2",null,null,HdfsConstants.GRANDFATHER_INODE_ID,null,EnumSet.noneOf(AddBlockFlag.class))).getBlock());
  t("addBlock again previous null (retry)",()->r.addBlock("/e/uc","c2",null,null,HdfsConstants.GRANDFATHER_INODE_ID,null,EnumSet.noneOf(AddBlockFlag.class)).getBlock());
  ExtendedBlock prev=lb[0]==null?null:new ExtendedBlock(lb[0].getBlock()); if (prev!=null) prev.setNumBytes(10);
  t("addBlock next, previous not reported",()->r.addBlock("/e/uc","c2",prev,null,HdfsConstants.GRANDFATHER_INODE_ID,null,EnumSet.noneOf(AddBlockFlag.class)).getBlock());
  t("complete unreported",()->r.complete("/e/uc","c2",prev,HdfsConstants.GRANDFATHER_INODE_ID));
  t("complete wrong client",()->r.complete("/e/uc","c9",null,HdfsConstants.GRANDFATHER_INODE_ID));
  t("complete closed",()->r.complete("/e/f","c9",null,HdfsConstants.GRANDFATHER_INODE_ID));
  t("complete missing",()->r.complete("/nope","c9",null,HdfsConstants.GRANDFATHER_INODE_ID));
  t("fsync wrong client",()->{r.fsync("/e/uc",0,"c9",-1);return null;});
  t("renewLease unknown",()->{r.renewLease("nobody",null);return null;});
  t("recoverLease uc",()->r.recoverLease("/e/uc","c3"));
  t("recoverLease closed",()->r.recoverLease("/e/f","c3"));
  t("recoverLease missing",()->r.recoverLease("/nope","c3"));
  t("append during recovery",()->r.append("/e/uc","c4",ap));
  t("delete nonempty nonrec",()->r.delete("/e",false));
  t("delete missing",()->r.delete("/nope",true));
  t("delete root rec",()->r.delete("/",true));
  t("delete perm",()->b.delete("/e/f",true));
  t("rename missing src",()->r.rename("/nope","/e/q"));
  t("rename to existing",()->r.rename("/e/f","/e/g"));
  t("rename into dir",()->r.rename("/e/g","/e/d"));
  t("rename under itself",()->r.rename("/e/d","/e/d/x/y"));
  t("rename to missing parent",()->r.rename("/e/f","/nope/x"));
  t("rename perm",()->b.rename("/e/f","/e/f2"));
  t("rename2 missing src",()->{r.rename2("/nope","/e/q");return null;});
  t("rename2 to existing",()->{r.rename2("/e/f","/e/d/g");return null;});
  t("rename2 overwrite dir with file",()->{r.rename2("/e/f","/e/d",Options.Rename.OVERWRITE);return null;});
  t("rename2 overwrite nonempty dir",()->{r.rename2("/e/empty","/e/d",Options.Rename.OVERWRITE);return null;});
  t("rename2 under itself",()->{r.rename2("/e/d","/e/d/x/y");return null;});
  t("rename2 to missing parent",()->{r.rename2("/e/f","/nope/x");return null;});
  t("rename2 parent is file",()->{r.rename2("/e/empty","/e/f/x");return null;});
  t("rename2 same",()->{r.rename2("/e/f","/e/f");return null;});
  t("setReplication missing",()->r.setReplication("/nope",(short)2));
  t("setReplication dir",()->r.setReplication("/e",(short)2));
  t("setReplication 600",()->r.setReplication("/e/f",(short)600));
  t("setPermission missing",()->{r.setPermission("/nope",p);return null;});
  t("setPermission not owner",()->{b.setPermission("/e/f",p);return null;});
  t("setOwner not super",()->{b.setOwner("/e/f","bob",null);return null;});
  t("setTimes missing",()->{r.setTimes("/nope",1,1);return null;});
  t("setQuota missing",()->{r.setQuota("/nope",5,5,null);return null;});
  t("setQuota not super",()->{b.setQuota("/e",5,5,null);return null;});
  t("setQuota file",()->{r.setQuota("/e/f",5,5,null);return null;});
  fs.mkdirs(new Path("/q")); s("setQuota /q",()->{r.setQuota("/q",2,HdfsConstants.QUOTA_DONT_SET,null); return null;});
  t("NS quota",()->r.mkdirs("/q/a",p,true)); t("NS quota 2",()->r.mkdirs("/q/b",p,true));
  fs.mkdirs(new Path("/q2")); s("setQuota /q2",()->{r.setQuota("/q2",HdfsConstants.QUOTA_DONT_SET,1000000,null); return null;});
  t("DS quota",()->{try(FSDataOutputStream o=fs.create(new Path("/q2/a"))){o.write(new byte[10]);}return null;});
  fs.mkdirs(new Path("/q3")); s("setQuota /q3",()->{r.setQuota("/q3",HdfsConstants.QUOTA_DONT_SET,1000000,StorageType.DISK); return null;});
  t("type quota",()->{try(FSDataOutputStream o=fs.create(new Path("/q3/a"))){o.write(new byte[10]);}return null;});
  t("symlink disabled",()->{r.createSymlink("/e/f","/e/ln",p,true);return null;});
  t("getLinkTarget not link",()->r.getLinkTarget("/e/f"));
  t("snapshot on non snapshottable",()->r.createSnapshot("/e","s1"));
  s("allowSnapshot",()->{r.allowSnapshot("/e"); return null;}); t("createSnapshot",()->r.createSnapshot("/e","s1")); t("createSnapshot dup",()->r.createSnapshot("/e","s1"));
  t("write in snapshot",()->r.mkdirs("/e/.snapshot/s1/x",p,true));
  t("delete in snapshot",()->r.delete("/e/.snapshot/s1/f",true));
  t("delete snapshottable",()->r.delete("/e",true));
  if (r.getFileInfo("/e")==null) { // a server without snapshots has removed it: the rows below need it
   file(fs,"/e/f"); fs.mkdirs(new Path("/e/d/x")); fs.mkdirs(new Path("/e/empty")); file(fs,"/e/d/g"); }
  t("disallow with snapshots",()->{r.disallowSnapshot("/e");return null;});
  t("deleteSnapshot missing",()->{r.deleteSnapshot("/e","nope");return null;});
  t("nested snapshottable",()->{r.allowSnapshot("/e/d");return null;});
  t("snapshot stat missing",()->r.getFileInfo("/e/.snapshot/zz"));
  t("getXAttrs missing xattr",()->r.getXAttrs("/e/f",XAttrHelper.buildXAttrAsList("user.zz")));
  t("setXAttr replace missing",()->{r.setXAttr("/e/f",XAttrHelper.buildXAttr("user.zz",new byte[0]),EnumSet.of(XAttrSetFlag.REPLACE));return null;});
  t("removeXAttr missing",()->{r.removeXAttr("/e/f",XAttrHelper.buildXAttr("user.zz"));return null;});
  t("setXAttr trusted not super",()->{b.setXAttr("/e/f",XAttrHelper.buildXAttr("trusted.zz",new byte[0]),EnumSet.of(XAttrSetFlag.CREATE));return null;});
  t("setAcl default on file",()->{r.modifyAclEntries("/e/f",AclEntry.parseAclSpec("default:user:bob:r--",true));return null;});
  t("getAclStatus",()->r.getAclStatus("/e/f"));
  t("setStoragePolicy unknown",()->{r.setStoragePolicy("/e/d","ZZ");return null;});
  t("getStoragePolicy missing",()->r.getStoragePolicy("/nope"));
  t("concat bad",()->{r.concat("/e/f",new String[]{"/e/d/g"});return null;});
  t("concat empty",()->{r.concat("/e/f",new String[]{});return null;});
  t("truncate larger",()->r.truncate("/e/f",100000,"c1"));
  t("truncate dir",()->r.truncate("/e",1,"c1"));
  t("checkAccess denied",()->{b.checkAccess("/e/f",FsAction.WRITE);return null;});
  t("getContentSummary missing",()->r.getContentSummary("/nope"));
  t("getQuotaUsage",()->r.getQuotaUsage("/e"));
  t("getPreferredBlockSize missing",()->r.getPreferredBlockSize("/nope"));
  t("isFileClosed missing",()->r.isFileClosed("/nope"));
  t("listCorrupt",()->r.listCorruptFileBlocks("/",null).getFiles().length);
  t("getDelegationToken simple",()->r.getDelegationToken(new Text("root")));
  t("getDataEncryptionKey",()->r.getDataEncryptionKey());
  t("createEncryptionZone",()->{r.createEncryptionZone("/e/d","k");return null;});
  t("getEZForPath",()->r.getEZForPath("/e/f"));
  t("getEnclosingRoot",()->r.getEnclosingRoot("/e/f"));
  t("getErasureCodingPolicy",()->r.getErasureCodingPolicy("/e/f"));
  t("setEC unknown",()->{r.setErasureCodingPolicy("/e/d","zz");return null;});
  t("setEC disabled",()->{r.setErasureCodingPolicy("/e/d","RS-6-3-1024k");return null;});
  t("unsetEC none",()->{r.unsetErasureCodingPolicy("/e/d");return null;});
  t("msync",()->{r.msync();return null;});
  t("getHAServiceState",()->r.getHAServiceState());
  t("getStats",()->r.getStats().length+" longs");
  t("renewLease namespaces",()->{r.renewLease("c1",Arrays.asList("ns"));return null;});
  t("getEditsFromTxid",()->r.getEditsFromTxid(1).getBatches().size());
  t("rollEdits",()->r.rollEdits());
  t("saveNamespace not safemode",()->r.saveNamespace(0,0));
  t("listOpenFiles",()->r.listOpenFiles(0,EnumSet.of(OpenFilesIterator.OpenFilesType.ALL_OPEN_FILES),"/").size());
  t("refreshNodes bob",()->{b.refreshNodes();return null;});
  t("setSafeMode bob",()->b.setSafeMode(HdfsConstants.SafeModeAction.SAFEMODE_ENTER,false));
  s("safe mode",()->r.setSafeMode(HdfsConstants.SafeModeAction.SAFEMODE_ENTER,false));
  t("mkdirs safemode",()->r.mkdirs("/sm",p,true));
  t("create safemode",()->r.create("/sm",p,"c1",cr,true,(short)1,1048576,cv,null,null));
  t("getBlockLocations safemode",()->r.getBlockLocations("/e/f",0,10).getFileLength());
  t("renewLease safemode",()->{r.renewLease("c2",null);return null;});
  t("saveNamespace",()->r.saveNamespace(0,0));
  s("leave safe mode",()->r.setSafeMode(HdfsConstants.SafeModeAction.SAFEMODE_LEAVE,false));
  System.exit(0);
 }}
