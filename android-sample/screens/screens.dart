// Copy it into a Flutter app: MaterialApp(navigatorObservers: [TraceteeScreens()]). FlutterScreens.kt is its other end.
import 'package:flutter/services.dart';
import 'package:flutter/widgets.dart';

/// Reports named routes as screens; one without a name keeps the screen that is there.
class TraceteeScreens extends NavigatorObserver {
  static const _channel = MethodChannel('dev.tracetee/screens');

  void _report(Route<dynamic>? route) {
    final name = route is PageRoute ? route.settings.name : null;
    if (name != null) _channel.invokeMethod<void>('setScreen', name).catchError((Object _) {});
  }

  @override
  void didPush(Route<dynamic> route, Route<dynamic>? previousRoute) => _report(route);

  @override
  void didPop(Route<dynamic> route, Route<dynamic>? previousRoute) => _report(previousRoute);

  @override
  void didRemove(Route<dynamic> route, Route<dynamic>? previousRoute) => _report(previousRoute);

  @override
  void didReplace({Route<dynamic>? newRoute, Route<dynamic>? oldRoute}) => _report(newRoute);
}
